#include "report/leaks/leak_holders.h"

#include <algorithm>

#include "analysis/code/shown_file.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFact = "leak holders";

// nullptr where there is none: anybody may have written the text.
const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool is_of(const Json& entry, const Store& store, const Frame& frame, bool is_backward) {
  const Json* site = member(entry, "site");
  const Json* file = site == nullptr ? nullptr : member(*site, "file");
  const Json* line = site == nullptr ? nullptr : member(*site, "line");
  if (file == nullptr || line == nullptr || !file->is_string() || !line->is_number_unsigned())
    return false;
  const Json* backward = member(*site, "is_backward");
  const bool is_entry_backward = backward != nullptr && backward->is_boolean() && *backward;
  if (line->get<std::uint64_t>() != frame.line || is_entry_backward != is_backward) return false;
  const std::string_view path = store.text(frame.file);
  const auto& named = file->get_ref<const std::string&>();
  return named == path || named == shown_file(path, store.program_folder());
}

}  // namespace

LeakHolder leak_holder(const Store& store, FrameId frame, bool is_backward) {
  if (frame.is_none()) return {};
  const auto& facts = store.origin().facts;
  const auto fact = std::find_if(facts.begin(), facts.end(),
                                 [](const auto& each) { return each.first == kFact; });
  if (fact == facts.end()) return {};
  const Json entries = Json::parse(fact->second, nullptr, false);
  if (!entries.is_array()) return {};
  for (const Json& entry : entries) {
    if (!is_of(entry, store, store.frame(frame), is_backward)) continue;
    LeakHolder found;
    const Json* chain = member(entry, "chain");
    const Json* text = member(entry, "text");
    if (chain != nullptr && chain->is_array() && !chain->empty()) found.chain = *chain;
    if (text != nullptr && text->is_string()) found.text = text->get<std::string>();
    return found;
  }
  return {};
}

std::string advice_with_holder(const std::string& advice, const LeakHolder& holder) {
  if (holder.text.find(".grad_fn") == std::string::npos) return advice;
  return "The graph of a result that is kept holds it: keep result.detach() or loss.item() "
         "instead.";
}

}  // namespace gpumemprof
