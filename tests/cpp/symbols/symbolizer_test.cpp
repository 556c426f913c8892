// What the symbolizer says about modules that lack something: stripped, another build, missing.
#include "symbols/symbolizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#if __has_include(<elfutils/libdwfl.h>)
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#endif

#include "symbols/elf_file.h"

namespace gpumemprof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A library with one function, compiled for each test.
class ModuleOnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "modulesXXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    std::ofstream(folder_ / "own.cpp") << "namespace shapes {\n"
                                          "struct Square { int side; };\n"
                                          "__attribute__((noinline)) int area(Square square) {\n"
                                          "  return square.side * square.side;\n"
                                          "}\n"
                                          "}\n"
                                          "extern \"C\" int twice(int x) {\n"
                                          "  return 2 * shapes::area({x});\n"
                                          "}\n";
    compile("-g");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void compile(const std::string& flags) {
    run("g++ -O0 -shared -fPIC -Wl,--build-id " + flags + " " + file("own.cpp") + " -o " +
        file("own.so"));
    const auto elf = ElfFile::open(file("own.so"));
    ASSERT_TRUE(elf);
    build_id_ = elf.value()->build_id();
  }
  static void run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] NativeModule module() const { return {file("own.so"), file("own.so"), build_id_}; }
  // The address of the function's first instruction, plus one: a return address in it.
  std::uint64_t address_of(const std::string& function) {
    run("nm " + file("own.so") + " | grep " + function + " > " + file("symbols"));
    std::uint64_t address = 0;
    std::ifstream(file("symbols")) >> std::hex >> address;
    return address + 1;
  }

  std::filesystem::path folder_;
  std::string build_id_;
};

TEST_F(ModuleOnDisk, has_a_name_and_a_line) {
  Symbolizer symbols;
  const auto frames = symbols.frames_at(module(), address_of("area"));
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].name, "shapes::area(shapes::Square)");
  EXPECT_EQ(frames[0].file, file("own.cpp"));
  EXPECT_EQ(frames[0].line, 3U);
  EXPECT_THAT(symbols.notes(), IsEmpty());
}

TEST_F(ModuleOnDisk, compiled_as_make_does_has_the_whole_path_of_its_source) {
  for (const std::string flags : {"-g -O2", "-gdwarf-4", "-gdwarf-5 -O1"}) {
    std::filesystem::create_directory(folder_ / "build");
    run("cd " + file("build") + " && g++ -shared -fPIC -Wl,--build-id " + flags +
        " ../own.cpp -o ../own.so");
    const auto elf = ElfFile::open(file("own.so"));
    ASSERT_TRUE(elf);
    build_id_ = elf.value()->build_id();
    Symbolizer symbols;
    const auto frames = symbols.frames_at(module(), address_of("area"));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].file, file("own.cpp")) << flags;
  }
}

TEST_F(ModuleOnDisk, without_debug_information_has_a_name_and_says_how_to_get_lines) {
  compile("-g0");
  Symbolizer symbols;
  EXPECT_THAT(symbols.frames_at(module(), address_of("area")),
              ElementsAre(SourceFrame{"shapes::area(shapes::Square)", file("own.so"), 0}));
  EXPECT_THAT(symbols.notes(), ElementsAre(HasSubstr("compile it with -g")));
}

TEST_F(ModuleOnDisk, stripped_is_an_address_and_says_how_to_get_names) {
  const std::uint64_t address = address_of("area");
  compile("-g -s -fvisibility=hidden");
  Symbolizer symbols;
  EXPECT_THAT(
      symbols.frames_at(module(), address),
      ElementsAre(SourceFrame{"own.so+" + native_address_text(address), file("own.so"), 0}));
  EXPECT_THAT(symbols.notes(), ElementsAre(HasSubstr("is stripped of its symbols")));
}

TEST_F(ModuleOnDisk, finds_debug_information_in_a_separate_file) {
  const std::uint64_t address = address_of("area");
  run("cd " + folder_.string() +
      " && objcopy --only-keep-debug own.so own.debug && strip own.so && objcopy "
      "--add-gnu-debuglink=own.debug own.so");
  Symbolizer symbols;
  const auto frames = symbols.frames_at(module(), address);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].name, "shapes::area(shapes::Square)");
  EXPECT_EQ(frames[0].line, 3U);
  EXPECT_THAT(symbols.notes(), IsEmpty());
}

TEST_F(ModuleOnDisk, of_another_build_is_not_trusted) {
  const NativeModule recorded = module();
  const std::uint64_t address = address_of("area");
  compile("-g -O2");
  ASSERT_NE(build_id_, recorded.build_id);
  Symbolizer symbols;
  EXPECT_THAT(
      symbols.frames_at(recorded, address),
      ElementsAre(SourceFrame{"own.so+" + native_address_text(address), file("own.so"), 0}));
  EXPECT_THAT(symbols.notes(), ElementsAre(HasSubstr("is not the build that was recorded")));
}

TEST_F(ModuleOnDisk, without_a_build_id_is_used_with_a_note) {
  compile("-g -Wl,--build-id=none");
  ASSERT_EQ(build_id_, "");
  Symbolizer symbols;
  const auto frames = symbols.frames_at(module(), address_of("area"));
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].line, 3U);
  EXPECT_THAT(symbols.notes(), ElementsAre(HasSubstr("link it with -Wl,--build-id")));
}

TEST_F(ModuleOnDisk, that_is_gone_is_an_address) {
  const NativeModule gone{"/no/such/program", "/no/such/program", "abcdef"};
  Symbolizer symbols;
  EXPECT_THAT(symbols.frames_at(gone, 0x42),
              ElementsAre(SourceFrame{"program+0x42", "/no/such/program", 0}));
  EXPECT_THAT(symbols.notes(), ElementsAre(HasSubstr("is not on this machine")));
}

TEST_F(ModuleOnDisk, that_is_no_module_at_all_is_an_address) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  std::ofstream(file("text")) << "\x7f"
                                 "ELF and then nothing of the kind";
  Symbolizer symbols;
  for (const std::string& path : {file("pipe"), file("text"), folder_.string(), std::string()})
    EXPECT_EQ(symbols.frames_at({path, path, ""}, 0x42).size(), 1U) << path;
}

TEST_F(ModuleOnDisk, cut_off_anywhere_does_no_harm) {
  std::ifstream in(file("own.so"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (std::size_t size = 0; size < whole.size(); size += whole.size() / 97 + 1) {
    std::ofstream(file("cut.so"), std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    Symbolizer symbols;
    EXPECT_GE(symbols.frames_at({file("cut.so"), file("cut.so"), ""}, 0x1120).size(), 1U);
  }
}

TEST(Demangled, leaves_other_names_alone) {
  EXPECT_EQ(demangled("main"), "main");
  EXPECT_EQ(demangled("_ZN2at6TensorD1Ev"), "at::Tensor::~Tensor()");
  EXPECT_EQ(demangled("_Z?"), "_Z?");
}

#if __has_include(<elfutils/libdwfl.h>)
TEST(Libdw, is_declared_as_its_own_headers_declare_it) {
  static_assert(sizeof(libdw::Die) == sizeof(Dwarf_Die));
  static_assert(sizeof(libdw::Attribute) == sizeof(Dwarf_Attribute));
  static_assert(sizeof(libdw::Callbacks) == sizeof(Dwfl_Callbacks));
  static_assert(sizeof(Dwarf_Addr) == sizeof(std::uint64_t));
  static_assert(sizeof(Dwarf_Word) == sizeof(std::uint64_t));
  static_assert(offsetof(libdw::Callbacks, find_debuginfo) ==
                offsetof(Dwfl_Callbacks, find_debuginfo));
  EXPECT_NE(libdw::functions(), nullptr);
}
#endif

}  // namespace
}  // namespace gpumemprof
