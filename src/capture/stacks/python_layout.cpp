#include "capture/stacks/python_layout.h"

#include <dlfcn.h>
#include <link.h>

#include <charconv>
#include <climits>
#include <cstring>

namespace gpumemprof::capture {
namespace {

constexpr int kOldestMinor = 9;
constexpr int kNewestMinor = 14;
constexpr char kDebugCookie[] = "xdebugpy";

Error no_layout(std::string message) {
  return {ErrorCode::environment, std::move(message), "", ""};
}

PythonLayout frame_object_layout(int minor) {
  PythonLayout layout;
  layout.minor = minor;
  layout.thread_frame = 24;
  layout.previous = 24;
  layout.code = 32;
  layout.instruction = minor == 9 ? 104 : 96;
  layout.locals = minor == 9 ? 360 : 352;
  layout.has_frame_objects = true;
  layout.instruction_unit = minor == 9 ? 1 : 2;
  layout.first_line = 40;
  layout.file = 104;
  layout.name = 112;
  layout.line_table = 120;
  layout.line_table_format = minor == 9 ? LineTableFormat::lnotab : LineTableFormat::pep626;
  layout.ascii_data = 48;
  layout.compact_data = 72;
  return layout;
}

PythonLayout cframe_layout(int minor) {
  PythonLayout layout;
  layout.minor = minor;
  layout.thread_frame = 56;
  layout.has_cframe = true;
  layout.cframe_frame = minor == 11 ? 8 : 0;
  layout.previous = minor == 11 ? 48 : 8;
  layout.code = minor == 11 ? 32 : 0;
  layout.instruction = 56;
  layout.owner = minor == 11 ? 69 : 70;
  layout.locals = 72;
  layout.file = 112;
  layout.name = 128;
  layout.first_line = minor == 11 ? 72 : 68;
  layout.line_table = 136;
  layout.first_instruction = minor == 11 ? 184 : 192;
  layout.ascii_data = minor == 11 ? 48 : 40;
  layout.compact_data = minor == 11 ? 72 : 56;
  return layout;
}

// Reads _Py_DebugOffsets: a list of 64-bit numbers whose order is fixed within a minor version.
class DebugOffsets {
 public:
  explicit DebugOffsets(const void* runtime) : base_(static_cast<const char*>(runtime)) {}

  [[nodiscard]] bool has_cookie() const { return std::memcmp(base_, kDebugCookie, 8) == 0; }
  [[nodiscard]] std::uint64_t word(std::size_t index) const {
    std::uint64_t value = 0;
    std::memcpy(&value, base_ + index * 8, 8);
    return value;
  }

 private:
  const char* base_;
};

Result<PythonLayout> published_layout(int minor, const void* runtime) {
  const DebugOffsets offsets(runtime);
  if (!offsets.has_cookie()) return no_layout("this Python does not publish its offsets");
  if (static_cast<int>((offsets.word(1) >> 16) & 0xFF) != minor) {
    return no_layout("this Python publishes the offsets of another version");
  }
  if (offsets.word(2) != 0) return no_layout("free-threaded builds of Python are not supported");
  // cookie, version, free_threaded; runtime state 3; interpreter state 13 (3.13) or 16 (3.14).
  const std::size_t thread = 6 + (minor == 13 ? 13 : 16);
  const std::size_t frame = thread + 9;
  const std::size_t code = frame + (minor == 13 ? 6 : 8);
  const auto at = [&](std::size_t index) {
    return static_cast<std::uint16_t>(offsets.word(index));
  };
  PythonLayout layout;
  layout.minor = minor;
  layout.thread_frame = at(thread + 4);
  layout.previous = at(frame + 1);
  layout.code = at(frame + 2);
  layout.instruction = at(frame + 3);
  layout.locals = at(frame + 4);
  layout.owner = at(frame + 5);
  layout.file = at(code + 1);
  layout.name = at(code + 3);
  layout.line_table = at(code + 4);
  layout.first_line = at(code + 5);
  layout.first_instruction = at(code + 9);
  layout.ascii_data = 40;
  layout.compact_data = 56;
  return layout;
}

Result<PythonLayout> layout_of(int minor) {
  if (minor < kOldestMinor || minor > kNewestMinor) {
    return no_layout("Python 3." + std::to_string(minor) + " is not one of 3.9 to 3.14");
  }
  if (minor <= 10) return frame_object_layout(minor);
  if (minor <= 12) return cframe_layout(minor);
  const void* runtime = ::dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime == nullptr) return no_layout("this Python hides its offsets");
  return published_layout(minor, runtime);
}

void find_runtime(PythonLayout& layout) {
  void* runtime = ::dlsym(RTLD_DEFAULT, "_PyRuntime");
  Dl_info info{};
  void* symbol = nullptr;
  if (runtime == nullptr || ::dladdr1(runtime, &info, &symbol, RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr || info.dli_saddr != runtime)
    return;
  layout.runtime_begin = reinterpret_cast<std::uintptr_t>(runtime);
  layout.runtime_end = layout.runtime_begin + static_cast<const ElfW(Sym)*>(symbol)->st_size;
}

}  // namespace

Result<PythonLayout> find_python_layout() {
  const auto version = reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  if (version == nullptr) return no_layout("there is no Python in this process");
  const char* text = version();
  if (std::strncmp(text, "3.", 2) != 0) return no_layout("this is not Python 3");
  int minor = 0;
  std::from_chars(text + 2, text + std::strlen(text), minor);
  Result<PythonLayout> layout = layout_of(minor);
  if (!layout) return layout;
  layout->this_thread_state =
      reinterpret_cast<void* (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  layout->code_type = ::dlsym(RTLD_DEFAULT, "PyCode_Type");
  if (layout->this_thread_state == nullptr || layout->code_type == nullptr) {
    return no_layout("this Python hides its thread states");
  }
  find_runtime(layout.value());
  return layout;
}

std::optional<pthread_key_t> find_thread_key(AskThreadState ask) {
  const void* state = ask();
  if (state == nullptr) return std::nullopt;
  std::optional<pthread_key_t> found;
  for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; ++key) {
    // This returns null for a key that nobody created.
    if (::pthread_getspecific(key) != state) continue;
    if (found) return std::nullopt;
    found = key;
  }
  return found;
}

}  // namespace gpumemprof::capture
