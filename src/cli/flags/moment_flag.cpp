#include "cli/flags/moment_flag.h"

#include <charconv>
#include <string_view>

namespace gpumemprof::cli {

Result<AskedMoment> parse_moment(const std::string& text) {
  if (text == "peak") return AskedMoment{};
  if (text == "end") return AskedMoment{AskedMoment::Kind::end, 0};
  constexpr std::string_view kStep = "step:";
  const bool is_step = text.starts_with(kStep);
  AskedMoment moment{is_step ? AskedMoment::Kind::step : AskedMoment::Kind::event};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + (is_step ? kStep.size() : 0), last,
                                            is_step ? moment.step : moment.event);
  if (error == std::errc() && end == last) return moment;
  return Error{ErrorCode::usage,
               "--at takes an event number, step:N, peak or end, not '" + text + "'", "",
               "try --at end"};
}

}  // namespace gpumemprof::cli
