#include "verbs/questions.h"

#include "session/html/view_html.h"
#include "verbs/promises.h"

namespace gpumemprof::fuzz {
namespace {

constexpr std::size_t kMostAskedDevices = 3;

class Questions {
 public:
  Questions(const View& view, Choices& choices) : view_(view), choices_(choices) {}

  void run() {
    promise_answer(view_.answer(view::MetaQuestion{}));
    promise_answer(view_.answer(view::ReportQuestion{0}));
    const std::size_t devices = std::min(view_.device_count(0), kMostAskedDevices);
    for (std::size_t device = 0; device < devices; ++device) ask_device({0, device});
    if (!choices_.one_in(4)) return;
    ViewHtmlOptions options;
    options.most_bytes = 400'000 + choices_.below(500'000);
    const Result<ViewHtml> made =
        write_view_html(view_, "<!doctype html><title>x</title><!--data-->", options);
    // A long recording is read again for it.
    const bool is_long = devices > 0 && view_.indexed({0, 0}) != nullptr;
    if (!made && is_long) return promise_sentence(made.error());
    promise(made.ok(), "a page can be written");
    promise(made.value().html.size() <= options.most_bytes + 2'000'000, "a page keeps to its size");
  }

 private:
  Position some_position() {
    const Position last = last_;
    if (choices_.one_in(8)) return static_cast<Position>(odd_number(choices_, last));
    return static_cast<Position>(choices_.below(std::size_t{last} + 2));
  }

  void ask_device(DeviceName name) {
    last_ = static_cast<Position>(view_.scale(name).positions - 1);
    promise_answer(view_.answer(view::OverlaysQuestion{name}));
    promise_answer(view_.answer(view::StepsQuestion{name}));
    promise_answer(view_.answer(view::AdviceQuestion{name, std::nullopt}));
    promise_answer(view_.answer(view::TogetherQuestion{name, "checkpointing+autocast_bf16"}));
    for (const GroupBy by : kGroupBys) {
      promise_answer(view_.answer(view::GroupsQuestion{name, by}));
      for (const Axis axis : {Axis::event, Axis::time}) {
        const auto level = static_cast<std::uint32_t>(choices_.below(5));
        const auto index = static_cast<std::uint32_t>(choices_.below(std::size_t{1} << level));
        promise_answer(view_.answer(view::TileQuestion{name, by, {axis, level, index}}));
        promise_answer(view_.answer(view::SpansQuestion{name, {axis, level, index}}));
      }
      promise_answer(view_.answer(view::SegmentsQuestion{name, some_position(), by}));
      promise_answer(view_.answer(view::GroupBytesQuestion{name, some_position(), by}));
      promise_answer(view_.answer(view::CompareQuestion{
          name, some_position(), {0, choices_.below(3)}, some_position(), by}));
    }
    promise_answer(view_.answer(
        view::TileQuestion{name,
                           GroupBy::line,
                           {Axis::time, static_cast<std::uint32_t>(odd_number(choices_, 21)),
                            static_cast<std::uint32_t>(odd_number(choices_, 1))}}));
    promise_answer(view_.answer(view::MomentQuestion{name, some_position()}));
    for (const FlameBy by : kFlameBys)
      promise_answer(view_.answer(view::FlameQuestion{name, some_position(), by}));
    ask_allocations(name);
  }

  void ask_allocations(DeviceName name) {
    view::AllocationsQuestion question;
    question.device = name;
    question.query.order = static_cast<AllocationOrder>(choices_.below(4));
    question.query.direction = choices_.one_in(2) ? SortDirection::down : SortDirection::up;
    question.query.offset = choices_.one_in(4) ? choices_.number() : choices_.below(50);
    question.query.limit = choices_.below(300);
    if (choices_.one_in(3)) question.query.filter.words = "linear train.py size>=1MiB \"";
    if (choices_.one_in(3)) question.query.filter.live_at = some_position();
    if (choices_.one_in(3)) question.query.filter.from = some_position();
    if (choices_.one_in(3)) question.query.filter.to = some_position();
    if (choices_.one_in(3)) {
      question.by = kGroupBys[choices_.below(std::size(kGroupBys))];
      question.group = static_cast<std::uint8_t>(choices_.below(256));
    }
    if (choices_.one_in(3)) {
      question.query.filter.min_lifetime = static_cast<std::int64_t>(odd_number(choices_, 9));
      question.query.filter.max_lifetime = static_cast<std::int64_t>(odd_number(choices_, 999));
    }
    promise_answer(view_.answer(question));
    promise_answer(view_.answer(view::AllocationQuestion{name, choices_.below(rows_of(name) + 2)}));
    promise_answer(view_.answer(view::SinglesQuestion{
        name, some_position(), some_position(), kGroupBys[choices_.below(std::size(kGroupBys))],
        choices_.one_in(2) ? Axis::time : Axis::event, odd_number(choices_, 4096),
        static_cast<std::int64_t>(odd_number(choices_, 99)), choices_.below(400)}));
    if (choices_.one_in(8)) promise_answer(view_.answer(view::SettingsQuestion{name}));
    promise_answer(view_.answer(view::RangeQuestion{name, some_position(), some_position()}));
    promise_answer(view_.answer(view::RangeFlameQuestion{
        name, some_position(), some_position(), kRangeParts[choices_.below(std::size(kRangeParts))],
        kFlameBys[choices_.below(std::size(kFlameBys))]}));
  }

  // Of a long run, it is not known how many there are.
  std::size_t rows_of(DeviceName name) const {
    const DeviceView* whole = view_.whole(name);
    return whole != nullptr ? whole->record().allocations.size() : std::size_t{last_};
  }

  const View& view_;
  Choices& choices_;
  Position last_ = 0;  // of the device that is asked about
};

}  // namespace

void ask_everything(const View& view, Choices& choices) { Questions(view, choices).run(); }

}  // namespace gpumemprof::fuzz
