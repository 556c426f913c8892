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
  std::array<std::byte, trace::kFileHeaderBytes> header{};
  const Result<std::size_t> got = file.value()->read(header);
  if (!got) return got.error();
  if (got.value() == header.size() && looks_like_trace(header)) {
    const std::size_t at = trace::kMagic.size();  // little-endian, right behind the magic
    info.format_version = static_cast<std::uint16_t>(
        std::to_integer<unsigned>(header[at]) | std::to_integer<unsigned>(header[at + 1]) << 8);
  }
  return info;
}

}  // namespace gpumemprof
