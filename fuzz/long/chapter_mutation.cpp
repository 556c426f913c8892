#include "long/chapter_mutation.h"

#include <filesystem>
#include <fstream>

#include "event/sinks/forwarding_sink.h"
#include "long/chapter_split.h"
#include "store/store_source.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/chapters/summary.h"
#include "trace/writer.h"
#include "verbs/text_mutation.h"

namespace gpumemprof::fuzz {
namespace {

namespace fs = std::filesystem;

// Says where the chapter begins once all that it begins with was passed on.
class ChapterSink final : public ForwardingSink {
 public:
  using ForwardingSink::ForwardingSink;

  void add_events(DeviceIndex device, EventColumns&& events) override {
    waiting_.emplace_back(device, std::move(events));
  }
  void finish(const ChapterStart& start) {
    if (start.number > 1) to_.add_chapter_start(start);
    for (auto& [device, events] : waiting_) to_.add_events(device, std::move(events));
  }

 private:
  std::vector<std::pair<DeviceIndex, EventColumns>> waiting_;
};

void change_start(ChapterStart& start, Choices& choices) {
  switch (choices.below(7)) {
    case 0:
      start.number = static_cast<std::uint32_t>(odd_number(choices, start.number));
      break;
    case 1:
      start.is_exact = !start.is_exact;
      break;
    case 2:
      start.repeated_sets = static_cast<std::uint32_t>(odd_number(choices, 1));
      break;
    case 3:
      start.devices.clear();
      break;
    case 4:
      for (ChapterDevice& device : start.devices) {
        device.rows = odd_number(choices, device.rows);
        device.made.allocations = odd_number(choices, device.made.allocations);
        device.last_time_ns = static_cast<std::int64_t>(odd_number(choices, 0));
      }
      break;
    case 5:
      if (!start.live.empty()) {
        LiveAllocation& live = start.live[choices.below(start.live.size())];
        live.address = odd_number(choices, live.address);
        live.device = static_cast<DeviceIndex>(choices.below(4));
      }
      break;
    default:
      start.live.clear();
  }
}

FileBytes bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::string& path, std::span<const std::uint8_t> bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

class Folder {
 public:
  Folder(std::string path, std::span<const FileBytes> foreign, Choices& choices)
      : path_(std::move(path)), foreign_(foreign), choices_(choices) {}

  void write(const Recording& run) {
    count_ = 2 + choices_.below(6);
    for (std::size_t number = 0; number < count_; ++number) write_chapter(run, number);
    if (!choices_.one_in(3)) write_summary();
  }

  // Of the folder as a whole.
  void change() {
    for (std::size_t changes = choices_.below(4); changes > 0; --changes)
      change_file(1 + choices_.below(count_));
    if (!list_chapters(path_)) write_bytes(name_of(1), foreign_[choices_.below(foreign_.size())]);
  }

 private:
  std::string name_of(std::size_t number) const {
    return path_ + "/" + chapter_name(static_cast<std::uint32_t>(number));
  }

  void write_chapter(const Recording& run, std::size_t number) {
    SplitChapter chapter;
    split_chapter(run, number, count_, chapter);
    if (choices_.one_in(5)) mutate_store(chapter.part, choices_);
    if (choices_.one_in(5)) change_start(chapter.start, choices_);
    TraceOptions options;
    options.existing = FileSink::Existing::replace;
    options.events_per_block = 16 + choices_.below(256);
    options.compression_level = 0;
    const auto writer = TraceWriter::open(name_of(number + 1), chapter.part.origin(),
                                          chapter.part.settings(), options);
    if (!writer) return;
    ChapterSink sink(*writer.value());
    (void)StoreSource(chapter.part).deliver(sink);
    sink.finish(chapter.start);
    const bool is_last = number + 1 == count_;
    if (!choices_.one_in(is_last ? 2 : 8))
      (void)writer.value()->close(is_last ? "exit 0" : kContinued);
  }

  void write_summary() {
    std::string text(kSummaryTitle);
    for (std::size_t number = 1; number <= count_ + choices_.below(3); ++number) {
      ChapterFigures chapter;
      chapter.number = static_cast<std::uint32_t>(number);
      chapter.events = 40;
      chapter.first_time_ns = static_cast<std::int64_t>(number) * 1'000'000;
      chapter.last_time_ns = chapter.first_time_ns + 999'999;
      chapter.devices.push_back({0, std::uint64_t{3} << 20U, std::uint64_t{20} << 20U, 512, 1024});
      const auto step = static_cast<std::uint32_t>(number);
      text +=
          summary_lines(chapter, {{step, step, 0, std::uint64_t{3} << 20U, 512, 20 << 20, 99, 40}});
    }
    if (choices_.one_in(2)) change_summary(text);
    write_bytes(path_ + "/" + std::string(kSummaryName),
                {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }

  void change_summary(std::string& text) {
    for (std::size_t changes = 1 + choices_.below(6); changes > 0 && !text.empty(); --changes) {
      const std::size_t at = choices_.below(text.size());
      switch (choices_.below(5)) {
        case 0:
          text[at] = static_cast<char>(choices_.below(256));
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.insert(at, std::to_string(static_cast<std::int64_t>(odd_number(choices_, 1))));
          break;
        case 3:
          text.insert(at, text.substr(choices_.below(text.size()), 200));
          break;
        default: {
          std::string words;
          change_text(words, choices_);
          text.insert(at, words);
        }
      }
    }
  }

  void change_file(std::size_t number) {
    const std::string path = name_of(number);
    std::error_code ignored;
    FileBytes bytes = fs::is_regular_file(path, ignored) ? bytes_of(path) : FileBytes();
    switch (choices_.below(10)) {
      case 0:
      case 1:
        fs::remove_all(path, ignored);
        break;
      case 2:
        bytes.resize(choices_.below(bytes.size() + 1));
        write_bytes(path, bytes);
        break;
      case 3:
        if (bytes.empty()) break;
        bytes[choices_.below(bytes.size())] ^= static_cast<std::uint8_t>(1U << choices_.below(8));
        write_bytes(path, bytes);
        break;
      case 4:
      case 5:
        write_bytes(path, mutate_blocks(bytes, choices_));
        break;
      case 6:
        fs::rename(path, name_of(1 + choices_.below(2 * count_)), ignored);
        break;
      case 7:
        fs::copy_file(path, name_of(1 + choices_.below(2 * count_)),
                      fs::copy_options::overwrite_existing, ignored);
        break;
      case 8:
        write_bytes(path, foreign_[choices_.below(foreign_.size())]);
        break;
      default:
        fs::remove_all(path, ignored);
        fs::create_directory(path, ignored);
    }
  }

  std::string path_;
  std::span<const FileBytes> foreign_;
  Choices& choices_;
  std::size_t count_ = 0;
};

}  // namespace

void write_changed_chapters(const Store& run, const std::string& folder,
                            std::span<const FileBytes> foreign, Choices& choices) {
  fs::remove_all(folder);
  fs::create_directory(folder);
  Folder chapters(folder, foreign, choices);
  StoreSource source(run);
  if (const auto recording = Recording::from(source, "run")) chapters.write(*recording.value());
  chapters.change();
}

}  // namespace gpumemprof::fuzz
