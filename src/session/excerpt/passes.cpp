#include "session/excerpt/passes.h"

#include <algorithm>

#include "analysis/code/whence.h"
#include "symbols/resolving_sink.h"
#include "trace/reader.h"

namespace gpumemprof {

Status RunPasses::begin() {
  const Result<Identity> identity = identity_of(path_);
  if (identity) identity_ = identity.value();
  if (!is_folder(path_)) return Done{};
  Result<std::unique_ptr<HeldChapters>> chapters = HeldChapters::open(path_);
  if (!chapters) return chapters.error();
  chapters_ = std::move(chapters).value();
  return Done{};
}

Result<std::unique_ptr<EventSource>> RunPasses::open(const OpenOptions& options) {
  Result<std::unique_ptr<EventSource>> source = open_source(path_, options);
  if (!source) return source;
  if (auto* const reader = dynamic_cast<TraceReader*>(source.value().get())) {
    if (!size_bytes_) size_bytes_ = reader->size_bytes();
    reader->set_end(*size_bytes_);
  }
  return source;
}

Status RunPasses::deliver(EventSink& sink, IndexMaker* maker) {
  if (passes_ == 0) {
    Status begun = begin();
    if (!begun) return begun;
  }
  OpenOptions pass = options_;
  pass.chapters = chapters_;
  if (options_.progress) {
    pass.progress = [this, before = std::min<std::uint64_t>(passes_, 1)](std::uint64_t done,
                                                                         std::uint64_t total) {
      options_.progress((before * total) + done, 2 * total);
    };
  }
  const Result<std::unique_ptr<EventSource>> source = open(pass);
  if (!source) return source.error();
  ++passes_;
  auto* const placed = dynamic_cast<PlacedSource*>(source.value().get());
  OwnStacksFirst stacks(sink);
  ResolvingSink resolving(stacks);
  if (maker != nullptr && placed != nullptr) return maker->deliver(*placed, resolving);
  return source.value()->deliver(resolving);
}

Status RunPasses::deliver_again(EventSink& sink) {
  OpenOptions pass = options_;
  pass.progress = nullptr;
  if (chapters_ != nullptr) pass.chapters = chapters_->again();
  const Result<std::unique_ptr<EventSource>> source = open(pass);
  if (!source) return source.error();
  OwnStacksFirst stacks(sink);
  ResolvingSink resolving(stacks);
  return source.value()->deliver(resolving);
}

}  // namespace gpumemprof
