#include "report/view/page.h"

#include "base/error.h"
#include "report/gzip/gzip.h"
#include "report/view/labels.h"

namespace gpumemprof::view {
namespace {

constexpr std::string_view kDataMark = "<!--data-->";

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t index = 0; index < 3; ++index) {
      group <<= 8;
      if (index < count) group |= static_cast<unsigned char>(bytes[at + index]);
    }
    for (std::size_t index = 0; index < 4; ++index)
      out += index <= count ? kDigits[(group >> (18 - 6 * index)) & 63U] : '=';
  }
  return out;
}

}  // namespace

void SectionWriter::add(std::string_view question, std::string_view json) {
  content_ += content_.empty() ? '{' : ',';
  content_ += dump(Json(question));
  content_ += ':';
  content_ += json;
}

Section SectionWriter::finish() {
  if (content_.empty()) content_ = "{";
  return {name_, base64(gzipped(content_ + "}"))};
}

std::string page_with_sections(std::string_view page, const std::vector<Section>& sections) {
  const std::size_t mark = page.find(kDataMark);
  GMP_CHECK(mark != std::string_view::npos);
  std::string out(page.substr(0, mark));
  for (const Section& section : sections) {
    out += R"(<script type="application/octet-stream" data-section=")" + section.name + "\">" +
           section.packed + "</script>\n";
  }
  return out + std::string(page.substr(mark + kDataMark.size()));
}

std::string page_policy(std::string_view page) {
  constexpr std::string_view kStart = R"(<meta http-equiv="Content-Security-Policy" content=")";
  const std::size_t start = page.find(kStart);
  if (start == std::string_view::npos) return "";
  const std::string_view rest = page.substr(start + kStart.size());
  return std::string(rest.substr(0, rest.find('"')));
}

}  // namespace gpumemprof::view
