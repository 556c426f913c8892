// The names in one folder as the kernel has them, without allocating.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "redirect/kernel.h"

namespace gpumemprof::redirect {

class FolderReader {
 public:
  explicit FolderReader(const char* path)
      : fd_(kernel_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

  [[nodiscard]] bool is_open() const { return fd_.is_open(); }
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The next name but "." and ".."; empty at the end. Valid until the next call.
  std::string_view next() {
    while (true) {
      if (at_ >= size_) {
        size_ = kernel(SYS_getdents64, fd_.get(), buffer_, sizeof(buffer_));
        at_ = 0;
        if (size_ <= 0) {
          return {};
        }
      }
      const char* entry = buffer_ + at_;
      uint16_t length = 0;
      std::memcpy(&length, entry + offsetof(dirent64, d_reclen), sizeof(length));
      at_ += length;
      const std::string_view name(entry + offsetof(dirent64, d_name));
      if (name != "." && name != "..") {
        return name;
      }
    }
  }

 private:
  Descriptor fd_;
  long size_ = 0;
  long at_ = 0;
  alignas(8) char buffer_[2048];
};

}  // namespace gpumemprof::redirect
