#include "cli/http/http_request.h"

#include <algorithm>

namespace gpumemprof::cli {
namespace {

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t index = 0; index < text.size(); ++index) {
    if (text[index] == '%' && index + 2 < text.size() && hex_digit(text[index + 1]) >= 0 &&
        hex_digit(text[index + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[index + 1]) * 16 + hex_digit(text[index + 2]));
      index += 2;
    } else {
      out += text[index] == '+' ? ' ' : text[index];
    }
  }
  return out;
}

void parse_target(std::string_view target, HttpRequest& request) {
  const std::size_t question = target.find('?');
  request.path = decoded(target.substr(0, question));
  if (question == std::string_view::npos) return;
  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    const std::size_t equals = pair.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
    request.parameters[decoded(pair.substr(0, equals))] = decoded(value);
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_control(char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; }

// What RFC 9110 calls a token: no space, no colon, no line end that another reader might see.
bool is_header_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
           kMarks.find(letter) != std::string_view::npos;
  });
}

bool is_header_value(std::string_view value) {
  return std::ranges::none_of(value,
                              [](char letter) { return is_control(letter) && letter != '\t'; });
}

bool parse_header(std::string_view line, HttpRequest& request) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return false;
  std::string name(line.substr(0, colon));
  for (char& letter : name) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_header_name(name) || !is_header_value(value)) return false;
  // A repeated header is a list, as RFC 9110 defines it: of two lengths neither counts alone.
  const auto [found, is_new] = request.headers.try_emplace(std::move(name), value);
  if (!is_new) found->second += "," + std::string(value);
  return true;
}

bool is_version(std::string_view version) { return version == "HTTP/1.1" || version == "HTTP/1.0"; }

bool is_target(std::string_view target) {
  return target.starts_with('/') && std::ranges::none_of(target, [](char letter) {
           return is_control(letter) || letter == ' ';
         });
}

}  // namespace

ParsedRequest parse_request(std::string_view head) {
  ParsedRequest parsed;
  const auto take_line = [&head] {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    return line;
  };
  const std::string_view line = take_line();
  const std::size_t first = line.find(' ');
  const std::size_t second = line.rfind(' ');
  const bool is_request =
      first != std::string_view::npos && second > first && is_version(line.substr(second + 1));
  if (!is_request) return {400, {}};
  if (line.substr(0, first) != "GET") return {405, {}};
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (!is_target(target)) return {400, {}};
  parse_target(target, parsed.request);
  while (!head.empty()) {
    if (!parse_header(take_line(), parsed.request)) return {400, {}};
  }
  // A body would be read as the next request.
  const auto& headers = parsed.request.headers;
  if (headers.contains("content-length") && headers.at("content-length") != "0") return {400, {}};
  if (headers.contains("transfer-encoding")) return {400, {}};
  return parsed;
}

std::optional<std::string> HeadBuffer::take() {
  constexpr std::string_view kBlankLine = "\r\n\r\n";
  const std::size_t end = bytes_.find(kBlankLine);
  if (end == std::string::npos) return std::nullopt;
  std::string head = bytes_.substr(0, end);
  bytes_.erase(0, end + kBlankLine.size());
  return head;
}

}  // namespace gpumemprof::cli
