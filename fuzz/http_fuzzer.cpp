// What a connection sends, from its first byte: split into heads, and each one parsed.
//
// Besides not crashing: however the bytes arrive, the heads are the same; an accepted request
// parses the same when it is written out again; and a body is never read as the next request.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/http/http_request.h"

namespace {

using gpumemprof::cli::HeadBuffer;
using gpumemprof::cli::HttpRequest;
using gpumemprof::cli::parse_request;
using gpumemprof::cli::ParsedRequest;

std::vector<std::string> heads(std::string_view bytes, std::size_t piece) {
  HeadBuffer buffer;
  std::vector<std::string> found;
  while (!bytes.empty()) {
    buffer.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (std::optional<std::string> head = buffer.take()) found.push_back(std::move(*head));
  }
  return found;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    out += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return out;
}

std::string written(const HttpRequest& request) {
  std::string head = "GET /" + escaped(std::string_view(request.path).substr(1));
  char joint = '?';
  for (const auto& [name, value] : request.parameters) {
    head += joint + escaped(name) + "=" + escaped(value);
    joint = '&';
  }
  head += " HTTP/1.1";
  for (const auto& [name, value] : request.headers)
    head.append("\r\n").append(name).append(": ").append(value);
  return head;
}

// As the most lenient reader would see it: any line that names a length or an encoding.
bool may_have_body(std::string_view head) {
  std::string name;
  bool is_name = true;
  for (std::size_t index = 0; index <= head.size(); ++index) {
    const char letter = index == head.size() ? '\n' : head[index];
    if (letter == '\r' || letter == '\n') {
      is_name = true;
      name.clear();
    } else if (letter == ':' && is_name) {
      is_name = false;
      if (name == "transfer-encoding") return true;
      if (name != "content-length") continue;
      const std::size_t end = std::min(head.find_first_of("\r\n", index), head.size());
      for (const char digit : head.substr(index + 1, end - index - 1)) {
        if (digit != ' ' && digit != '\t' && digit != '0') return true;
      }
    } else if (is_name) {
      const char lower =
          letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
      if (lower > ' ') name += lower;
    }
  }
  return false;
}

void check(const std::string& head) {
  const ParsedRequest parsed = parse_request(head);
  if (parsed.status != 200) {
    GMP_CHECK(parsed.status == 400 || parsed.status == 405);
    GMP_CHECK(parsed.request == HttpRequest());
    return;
  }
  GMP_CHECK(parsed.request.path.starts_with('/'));
  GMP_CHECK(!may_have_body(head));
  const ParsedRequest again = parse_request(written(parsed.request));
  GMP_CHECK(again.status == 200);
  GMP_CHECK(again.request == parsed.request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> found = heads(bytes, bytes.size() + 1);
  GMP_CHECK(heads(bytes, data[0] % 64 + 1) == found);
  for (const std::string& head : found) check(head);
  check(std::string(bytes));
  return 0;
}
