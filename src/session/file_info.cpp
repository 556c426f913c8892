#include "session/file_info.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "base/byte_source.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/format.h"
#include "trace/reader.h"

namespace gpumemprof {

Result<FileInfo> look_at_file(const std::string& path) {
  FileInfo info;
  info.path = path;
  if (is_folder(path)) {
    const Result<std::vector<ChapterFile>> chapters = list_chapters(path);
    if (!chapters) return chapters.error();
    info.size_bytes = 0;
    for (const ChapterFile& chapter : chapters.value()) *info.size_bytes += chapter.size_bytes;
    info.format_version = trace::kVersion;
    return info;
  }
  // Bytes read from a pipe would be missing later.
  if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) return info;
  const Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  info.size_bytes = file.value()->size_bytes();
  std::array<std::byte, trace::kMagic.size()> start{};
  const Result<std::size_t> got = file.value()->read(start);
  if (!got) return got.error();
  if (looks_like_trace(start)) info.format_version = trace::kVersion;
  return info;
}

}  // namespace gpumemprof
