// A path of bounded length on the stack: nothing here allocates.
//
// What does not fit is cut off and remembered (is_too_long). Virtual paths are absolute, without a
// slash at the end; the root is the empty text until it is shown.
#pragma once

#include <climits>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace gpumemprof::redirect {

// string_view::substr() without its check, which would bring in the C++ library's exceptions.
inline std::string_view part_of(std::string_view text, size_t start,
                                size_t count = std::string_view::npos) {
  text.remove_prefix(start);
  return {text.data(), count < text.size() ? count : text.size()};
}

class PathText {
 public:
  PathText() { text_[0] = '\0'; }
  explicit PathText(std::string_view text) {
    text_[0] = '\0';
    append(text);
  }
  PathText(const PathText& other) { *this = other; }
  PathText& operator=(const PathText& other) {
    if (this != &other) {
      size_ = other.size_;
      is_too_long_ = other.is_too_long_;
      std::memcpy(text_, other.text_, size_ + 1);
    }
    return *this;
  }
  ~PathText() = default;

  [[nodiscard]] const char* c_str() const { return size_ == 0 ? "/" : text_; }
  [[nodiscard]] std::string_view view() const { return {text_, size_}; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool is_too_long() const { return is_too_long_; }
  // For the kernel to fill; then resize().
  [[nodiscard]] char* data() { return text_; }
  static constexpr size_t capacity() { return sizeof(text_) - 1; }

  void resize(size_t size) {
    size_ = size;
    text_[size] = '\0';
  }
  void assign(std::string_view text) {
    size_ = 0;
    is_too_long_ = false;
    append(text);
  }
  void append(std::string_view text) {
    if (size_ + text.size() > capacity()) {
      is_too_long_ = true;
      return;
    }
    std::memcpy(text_ + size_, text.data(), text.size());
    resize(size_ + text.size());
  }
  void append_name(std::string_view name) {
    append("/");
    append(name);
  }
  void append_hex(unsigned long long number) {
    char digits[16];
    size_t count = 0;
    do {
      digits[sizeof(digits) - ++count] = "0123456789abcdef"[number % 16];
      number /= 16;
    } while (number != 0);
    append({digits + sizeof(digits) - count, count});
  }
  [[nodiscard]] std::string_view parent() const {
    const size_t slash = view().rfind('/');
    return part_of(view(), 0, slash == std::string_view::npos ? 0 : slash);
  }
  [[nodiscard]] std::string_view name() const {
    const size_t slash = view().rfind('/');
    return slash == std::string_view::npos ? view() : part_of(view(), slash + 1);
  }
  void remove_name() { resize(parent().size()); }

 private:
  size_t size_ = 0;
  bool is_too_long_ = false;
  char text_[PATH_MAX];
};

// Whether a path is this folder or below it.
inline bool is_below(std::string_view path, std::string_view folder) {
  return part_of(path, 0, folder.size()) == folder &&
         (path.size() == folder.size() || path[folder.size()] == '/' || folder.empty());
}

}  // namespace gpumemprof::redirect
