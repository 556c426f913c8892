#include "trace/chapters/chapter_identity.h"

#include "trace/block.h"
#include "trace/bytes_io.h"
#include "trace/content/about.h"

namespace gpumemprof {
namespace {

std::string fact_of(const Origin& origin, std::string_view name) {
  for (const auto& [key, value] : origin.facts) {
    if (key == name) return value;
  }
  return {};
}

std::string process_of(const trace::InBytes& content) {
  Origin origin;
  AllocatorSettings settings;
  if (!trace::decode_about(content, origin, settings)) return {};
  const std::string pid = fact_of(origin, "pid");
  const std::string host = fact_of(origin, "host");
  if (pid.empty()) return {};
  return host.empty() ? pid : pid + " on " + host;
}

}  // namespace

ChapterIdentity identify_chapter(ByteSource& source) {
  ChapterIdentity found;
  trace::BlockReader blocks(source);
  trace::Block block;
  while (blocks.next(block) == trace::BlockReader::Outcome::block) {
    trace::InBytes content(block.content);
    switch (block.kind) {
      case trace::BlockKind::about:
        if (found.process.empty()) found.process = process_of(content);
        break;
      case trace::BlockKind::chapter:
        found.number = static_cast<std::uint32_t>(content.below(std::uint64_t{1} << 32U));
        return found;
      // Later chapters say where they begin before their first event.
      case trace::BlockKind::events:
      case trace::BlockKind::end:
        found.number = 1;
        return found;
      default:
        break;
    }
  }
  return found;
}

}  // namespace gpumemprof
