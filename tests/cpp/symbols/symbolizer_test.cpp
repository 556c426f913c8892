// What the symbolizer says about modules that lack something: stripped, another build, missing.
#include "symbols/symbolizer.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#if __has_include(<elfutils/libdwfl.h>)
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#endif

#include "symbols/elf_file.h"
#include "symbols/mangled_size.h"

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

TEST_F(ModuleOnDisk, does_not_wait_for_a_pipe_in_the_place_of_a_separate_file) {
  const std::uint64_t address = address_of("area");
  run("cd " + folder_.string() +
      " && objcopy --only-keep-debug own.so own.debug && strip --strip-debug own.so && objcopy "
      "--add-gnu-debuglink=own.debug own.so && rm own.debug && mkfifo own.debug");
  std::filesystem::create_symlink(file("own.so"), file("link.so"));
  for (const std::string name : {"own.so", "link.so"}) {
    Symbolizer symbols;
    EXPECT_THAT(symbols.frames_at({file(name), file(name), build_id_}, address),
                ElementsAre(SourceFrame{"shapes::area(shapes::Square)", file(name), 0}));
  }
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

// Of type N is a pair of two of type N - 1, which the name has only once.
std::string name_of_nested_pairs(std::size_t count) {
  const auto reference = [](std::size_t number) {
    constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return std::string("S") + (number < 36 ? "" : "1") + kDigits[number % 36] + "_";
  };
  std::string name = "_Z1f1aSt4pairIS_S_E";
  for (std::size_t pair = 0; pair < count; ++pair)
    name += "S0_I" + reference(pair + 1) + reference(pair + 1) + "E";
  return name;
}

TEST(Demangled, a_short_name_that_stands_for_a_text_without_end_stays_as_it_is) {
  EXPECT_THAT(demangled(name_of_nested_pairs(2)), HasSubstr("std::pair<std::pair<a, a>"));
  EXPECT_EQ(demangled(name_of_nested_pairs(60)), name_of_nested_pairs(60));
  std::string functions = "_Z1fPFiiE";
  constexpr std::string_view kDigits = "13579BDFHJLNPRTVXZ";
  for (const char digit : kDigits) functions += std::string("PFS") + digit + "_S" + digit + "_E";
  EXPECT_EQ(demangled(functions), functions);
  std::string pattern = "T_";
  for (int nested = 0; nested < 12; ++nested) pattern = "1AIDp" + pattern + "E";
  const std::string packs = "_Z1fIJijlmijlmijlmijlmijlmijlmijlmijlmEEv" + pattern;
  EXPECT_EQ(demangled(packs), packs);
}

TEST(MangledSize, is_never_less_than_the_name_has) {
  const std::vector<std::string> names = {
      "_ZN2at6TensorD1Ev",
      "_ZSt4cout",
      "_ZTVN10__cxxabiv117__class_type_infoE",
      "_ZThn16_N5torch8autograd4Node7releaseEv",
      "_ZNSsC1EPKcRKSaIcE",
      "_ZNKSt6vectorIN2at6TensorESaIS1_EE4sizeEv",
      "_ZZN1aC4IZ1bIiEvT_EUlvE_EERS2_ENKUlvE_clEv",
      "_ZN3c104impl28wrap_kernel_functor_unboxed_IPFN2at6TensorERKS3_RKNS_6ScalarEES4_E4callEv",
      "_Z3addI1aS0_EDTplcl7declvalIT_EEcl7declvalIT0_EEES1_S2_",
      "_Z1fIJijlmEEvDpRKT_",
      "_Z1fIJijEEv1AIJDpSt4pairIT_iEEE",
      "_Z1gILi3ELb1EXadL_Z1fvEEEvA10_iM1aFivE.constprop.0",
      "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EEEE5valueEvE4typeER"
      "S3_S6_",
      name_of_nested_pairs(1),
      name_of_nested_pairs(5),
  };
  for (const std::string& name : names) {
    const std::string readable = demangled(name);
    EXPECT_NE(readable, name);
    EXPECT_GE(most_demangled_bytes(name), readable.size()) << name;
  }
}

TEST(MangledSize, of_a_damaged_name_is_never_less_than_it_has) {
  const std::string name =
      "_ZZNSt9once_flagC4IZSt9call_onceIMN1a1bEFvPSt8functionIFSt10unique_ptrIcEvEEPbEJPS4_SC_SD_"
      "EEvRS_OT_DpOT0_EUlvE_EERSJ_ENUlvE_4_FUNEv";
  for (std::size_t size = 3; size <= name.size(); ++size)
    EXPECT_GE(most_demangled_bytes(name.substr(0, size)), demangled(name.substr(0, size)).size());
  for (const std::string part :
       {"P", "1aI", "N1a", "Z1fvE", "F", "XadL_Z", "DTcl", "J", "T_", "S_"}) {
    std::string long_name = "_Z1fI";
    while (long_name.size() < kMostSymbolBytes) long_name += part;
    EXPECT_EQ(demangled(long_name), long_name) << part;
  }
}

// A library without instructions, whose functions have these names and 16 bytes each.
void write_library(const std::string& path, const std::vector<std::string>& names) {
  std::string texts(1, '\0');
  std::vector<Elf64_Sym> symbols(1);
  for (const std::string& name : names) {
    Elf64_Sym symbol{};
    // As linkers do: a name may be the end of the one before.
    if (!texts.ends_with(name + '\0')) texts += name + '\0';
    symbol.st_name = static_cast<Elf64_Word>(texts.size() - name.size() - 1);
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;
    symbol.st_value = 16 * symbols.size();
    symbol.st_size = 16;
    symbols.push_back(symbol);
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof(header);
  header.e_ehsize = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  std::vector<Elf64_Shdr> sections(4);
  sections[1].sh_type = SHT_NOBITS;
  sections[1].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  sections[1].sh_size = 16 * symbols.size();
  sections[2].sh_type = SHT_SYMTAB;
  sections[2].sh_offset = sizeof(header) + 4 * sizeof(Elf64_Shdr);
  sections[2].sh_size = symbols.size() * sizeof(Elf64_Sym);
  sections[2].sh_entsize = sizeof(Elf64_Sym);
  sections[2].sh_link = 3;
  sections[3].sh_type = SHT_STRTAB;
  sections[3].sh_offset = sections[2].sh_offset + sections[2].sh_size;
  sections[3].sh_size = texts.size();
  std::ofstream out(path, std::ios::binary);
  const auto write = [&out](const auto* rows, std::size_t bytes) {
    out.write(reinterpret_cast<const char*>(rows), static_cast<std::streamsize>(bytes));
  };
  write(&header, sizeof(header));
  write(sections.data(), sections.size() * sizeof(Elf64_Shdr));
  write(symbols.data(), symbols.size() * sizeof(Elf64_Sym));
  write(texts.data(), texts.size());
}

TEST_F(ModuleOnDisk, with_hostile_names_is_shown_in_bounds) {
  const std::string endless = name_of_nested_pairs(60);
  const std::string path = file("hostile.so");
  write_library(path, {"plain", std::string(5000, 'f'), std::string(kMostSymbolBytes + 1, 'g'),
                       endless, name_of_nested_pairs(6)});
  const NativeModule hostile{path, path, ""};
  Symbolizer symbols;
  const auto name_at = [&](std::uint64_t function) {
    return symbols.frames_at(hostile, 16 * function + 1).back().name;
  };
  EXPECT_EQ(name_at(1), "plain");
  EXPECT_EQ(name_at(2), std::string(kMostShownNameBytes - 3, 'f') + "...");
  EXPECT_EQ(name_at(3), "hostile.so+0x31");
  EXPECT_EQ(name_at(4), endless);
  EXPECT_THAT(name_at(5), HasSubstr("std::pair<std::pair<"));
}

TEST_F(ModuleOnDisk, with_very_many_long_names_is_addresses_after_some_of_them) {
  std::vector<std::string> names;
  for (int number = 0; number < 1500; ++number) names.emplace_back(60'000 - number, 'f');
  const std::string path = file("long.so");
  write_library(path, names);
  const NativeModule hostile{path, path, ""};
  Symbolizer symbols;
  const auto name_at = [&](std::uint64_t function) {
    return symbols.frames_at(hostile, 16 * function + 1).back().name;
  };
  EXPECT_EQ(name_at(1).size(), kMostShownNameBytes);
  for (std::uint64_t function = 2; function < 1500; ++function) name_at(function);
  EXPECT_EQ(name_at(1500), "long.so+" + native_address_text(16 * 1500 + 1));
}

TEST_F(ModuleOnDisk, named_by_a_relative_path_is_not_opened) {
  const std::uint64_t address = address_of("area");
  const std::string path = std::filesystem::relative(file("own.so")).string();
  ASSERT_TRUE(std::filesystem::exists(path));
  Symbolizer symbols;
  EXPECT_THAT(symbols.frames_at({path, path, build_id_}, address),
              ElementsAre(SourceFrame{"own.so+" + native_address_text(address), path, 0}));
  EXPECT_THAT(symbols.notes(), ElementsAre(HasSubstr("was recorded without its folder")));
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
