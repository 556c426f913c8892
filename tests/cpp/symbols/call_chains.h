// Random C++ programs for the tests: call chains of plain and inlined functions, templates, lambdas
// and members, with frames of all shapes. Each chain ends in a call of a function of the test.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace gpumemprof::testing {

// Source of a library with `chains` functions, reached by `extern "C" int run_chain(int number, int
// (*leaf)(int))`.
class CallChains {
 public:
  explicit CallChains(std::uint64_t seed) : random_(seed) {}

  std::string source(int chains) {
    text_ =
        "#include <alloca.h>\n"
        "#include <functional>\n"
        "#include <vector>\n"
        "using Leaf = int (*)(int);\n"
        "template <typename Function>\n"
        "[[gnu::always_inline]] inline int apply_inline(Function&& function, int x) {\n"
        "  return function(x) + 1;\n"
        "}\n"
        "template <typename Function>\n"
        "[[gnu::noinline]] int apply_called(Function&& function, int x) {\n"
        "  return function(x) + 1;\n"
        "}\n";
    std::string cases;
    for (int chain = 0; chain < chains; ++chain) {
      const int depth = between(2, 14);
      for (int level = 0; level < depth; ++level) add_function(chain, level);
      cases += "    case " + std::to_string(chain) + ":\n      return " +
               call(chain, depth - 1, "leaf, number") + ";\n";
    }
    text_ += "extern \"C\" int run_chain(int number, Leaf leaf) {\n  switch (number) {\n" + cases +
             "  }\n  return 0;\n}\n";
    return text_;
  }

 private:
  enum class Kind : std::uint8_t {
    called,
    inlined,
    plain,
    hidden,
    called_template,
    inlined_template,
    member,
    lambda,
    passed_lambda,
    variable_frame,
    aligned_frame,
    large_frame,
    from_library,
  };
  static constexpr int kKinds = 13;

  int between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  static std::string name(int chain, int level) {
    return "f" + std::to_string(chain) + "_" + std::to_string(level);
  }
  // How level 0, 1, … is called; level −1 is the leaf.
  std::string call(int chain, int level, const std::string& arguments) {
    if (level < 0) return "leaf(x)";
    const std::string own = name(chain, level);
    switch (kinds_[level]) {
      case Kind::called_template:
        return own + "<" + std::to_string(between(0, 9)) + ">(" + arguments + ")";
      case Kind::inlined_template:
        return own + "<" + (between(0, 1) == 0 ? "int" : "std::vector<long>") + ">(" + arguments +
               ")";
      case Kind::member:
        return own + "_type<char>(" + std::to_string(level) + ").run(" + arguments + ")";
      case Kind::hidden:
        return "inner" + std::to_string(chain) + "::" + own + "(" + arguments + ")";
      default:
        return own + "(" + arguments + ")";
    }
  }

  void add_function(int chain, int level) {
    const Kind kind = static_cast<Kind>(between(0, kKinds - 1));
    const std::string inner = call(chain, level - 1, "leaf, x");
    kinds_[level] = kind;
    const std::string own = name(chain, level);
    for (int empty = between(0, 2); empty > 0; --empty) text_ += "\n";
    // The result is used after the call, so that it does not become a jump.
    const std::string plain = "(Leaf leaf, int x) {\n  int y = " + inner +
                              ";\n  asm volatile(\"\" : \"+r\"(y));\n  return y + 1;\n}\n";
    switch (kind) {
      case Kind::called:
        text_ += "[[gnu::noinline]] int " + own + plain;
        break;
      case Kind::inlined:
        text_ += "[[gnu::always_inline]] inline int " + own + plain;
        break;
      case Kind::plain:
        text_ += "static int " + own + plain;
        break;
      case Kind::hidden:
        text_ += "namespace inner" + std::to_string(chain) + " {\nnamespace {\n" +
                 (between(0, 1) == 0 ? "[[gnu::noinline]] int " : "inline int ") + own + plain +
                 "}\n}\n";
        break;
      case Kind::called_template:
        text_ += "template <int kNumber>\n[[gnu::noinline]] int " + own + plain;
        break;
      case Kind::inlined_template:
        text_ += "template <typename T>\n[[gnu::always_inline]] inline int " + own + plain;
        break;
      case Kind::member:
        text_ += "template <typename T>\nstruct " + own + "_type {\n  explicit " + own +
                 "_type(int start) : y(start) {}\n" +
                 (between(0, 1) == 0 ? "  [[gnu::noinline]] int run" : "  int run") + plain +
                 "  int y;\n};\n";
        break;
      case Kind::lambda:
        text_ +=
            "[[gnu::noinline]] int " + own +
            "(Leaf leaf, int x) {\n  const auto inside = [&](int more) {\n    int y = " + inner +
            " + more;\n    asm volatile(\"\" : \"+r\"(y));\n    return y;\n  };\n" +
            "  return inside(1) +\n         1;\n}\n";
        break;
      case Kind::passed_lambda:
        text_ += "int " + own + "(Leaf leaf, int x) {\n  return " +
                 (between(0, 1) == 0 ? "apply_inline" : "apply_called") +
                 "([leaf](int x) {\n    int y = " + inner +
                 ";\n    asm volatile(\"\" : \"+r\"(y));\n    return y + 2;\n  }, x);\n}\n";
        break;
      case Kind::variable_frame:
        text_ += "[[gnu::noinline]] int " + own +
                 "(Leaf leaf, int x) {\n  volatile char* room = static_cast<volatile char*>(" +
                 "alloca(16 + (x & 63)));\n  room[0] = 1;\n  int y = " + inner +
                 ";\n  return y + room[0];\n}\n";
        break;
      case Kind::aligned_frame:
        text_ +=
            "[[gnu::noinline]] int " + own +
            "(Leaf leaf, int x) {\n  alignas(64) volatile char room[64];\n  room[x & 7] = 1;\n" +
            "  int y = " + inner + ";\n  return y + room[x & 7];\n}\n";
        break;
      case Kind::large_frame:
        text_ += "[[gnu::noinline]] int " + own + "(Leaf leaf, int x) {\n  volatile char room[" +
                 std::to_string(between(1000, 9000)) +
                 "];\n  room[x & 7] = 1;\n  int y = " + inner + ";\n  return y + room[x & 7];\n}\n";
        break;
      case Kind::from_library:
        text_ +=
            "[[gnu::noinline]] int " + own +
            "(Leaf leaf, int x) {\n  const std::function<int(int)> held =\n      [&](int x) { " +
            "int y = " + inner + "; asm volatile(\"\" : \"+r\"(y)); return y; };\n" +
            "  return held(x) + 1;\n}\n";
        break;
    }
  }

  std::mt19937_64 random_;
  std::string text_;
  Kind kinds_[16] = {};
};

}  // namespace gpumemprof::testing
