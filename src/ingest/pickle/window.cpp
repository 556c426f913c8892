#include "ingest/pickle/window.h"

#include <algorithm>
#include <cstring>

namespace gpumemprof::pickle {

Window::Window(ByteSource& source) : source_(source), buffer_(kCapacity + kPadding) {}

Status Window::advance(const std::uint8_t* position, std::size_t wanted) {
  const auto consumed = static_cast<std::size_t>(position - begin());
  begin_offset_ += consumed;
  const std::size_t kept = end_ - begin_ - consumed;
  std::memmove(buffer_.data(), position, kept);
  begin_ = 0;
  end_ = kept;
  while (!at_end_ && (end_ < wanted || end_ < kCapacity / 2)) {
    if (end_ + kPadding == buffer_.size()) buffer_.resize(buffer_.size() + end_);
    auto room = std::span(buffer_).subspan(end_, buffer_.size() - kPadding - end_);
    const Result<std::size_t> got = source_.read(std::as_writable_bytes(room));
    if (!got) return got.error();
    at_end_ = got.value() == 0;
    end_ += got.value();
  }
  std::fill_n(buffer_.begin() + static_cast<std::ptrdiff_t>(end_), kPadding, std::uint8_t{0});
  return Done{};
}

}  // namespace gpumemprof::pickle
