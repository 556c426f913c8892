#include "cli/flags/moment_flag.h"

#include <charconv>

namespace gpumemprof::cli {

Result<AskedMoment> parse_moment(const std::string& text) {
  if (text == "peak") return AskedMoment{};
  if (text == "end") return AskedMoment{AskedMoment::Kind::end, 0};
  AskedMoment moment{AskedMoment::Kind::event, 0};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, moment.event);
  if (error == std::errc() && end == last) return moment;
  return Error{ErrorCode::usage, "--at takes an event number, peak or end, not '" + text + "'", "",
               "try --at end"};
}

}  // namespace gpumemprof::cli
