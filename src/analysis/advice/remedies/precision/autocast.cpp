#include "analysis/advice/remedies/precision/autocast.h"

#include <algorithm>
#include <deque>

#include "analysis/advice/remedies/precision/half_precision.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;
constexpr std::uint32_t kFormulaLength = 5;  // results on one line; see is_formula
constexpr std::size_t kRecentResults = 8;
constexpr std::uint32_t kDropAfter = 8;  // allocations until the program drops what is not saved

class PassPrecision {
 public:
  PassPrecision(Rewrite& rewrite, const ForwardPass& pass)
      : rewrite_(rewrite), facts_(rewrite.facts), pass_(pass), is_half_(pass.forward.size(), 0) {}

  void run() {
    for (std::uint32_t index = 0; index < pass_.operations.size(); ++index) follow(index);
    for (std::uint32_t place = 0; place < pass_.forward.size(); ++place) {
      if (is_half_[place] != 0) halve(pass_.forward[place]);
    }
    for (std::size_t index = 0; index < pass_.backward.size(); ++index) follow_backward(index);
  }

 private:
  [[nodiscard]] std::uint64_t bytes(std::uint32_t place) const {
    return facts_.bytes(pass_.forward[place]);
  }
  [[nodiscard]] std::uint32_t birth(std::uint32_t place) const {
    return facts_.birth(pass_.forward[place]);
  }
  [[nodiscard]] bool is_saved(std::uint32_t place) const {
    return facts_.is_saved(pass_, pass_.forward[place]);
  }
  void halve(std::uint32_t row) {
    TimelineRow* entry = rewrite_.find(row);
    if (entry != nullptr) entry->size_bytes = (entry->size_bytes + 1) / 2;
  }
  // Nothing saves it any more.
  void drop_early(std::uint32_t place, std::uint32_t user) {
    TimelineRow* entry = rewrite_.find(pass_.forward[place]);
    if (entry == nullptr) return;
    const std::uint32_t later = user + kDropAfter;
    const TimelineKey key = later < pass_.forward.size() ? after_event(birth(later), 1)
                            : pass_.has_backward()       ? before_event(pass_.backward_first, 1)
                                                         : entry->death;
    if (key < entry->death) entry->die_at(key);
  }

  // A copy of a result in the other precision, saved for backward instead of it.
  void copy_input(std::uint32_t input, std::uint32_t user, std::uint64_t copy_bytes) {
    TimelineRow* entry = rewrite_.find(pass_.forward[input]);
    if (entry == nullptr || !is_saved(input)) return;
    const std::uint32_t end = facts_.death(pass_.forward[input]);
    const TimelineKey death = end == kNoEvent ? kTimelineEnd : at_event(end);
    const std::uint32_t stream_pool = entry->stream_pool;
    rewrite_.timeline
        .insert(before_event(birth(user), 1), death, copy_bytes, MemorySource::activations)
        .stream_pool = stream_pool;
    drop_early(input, user);
  }

  void follow(std::uint32_t index) {
    const Operation& operation = pass_.operations[index];
    switch (operation.kind) {
      case OpKind::matmul:
        multiply(index);
        break;
      case OpKind::attention:
        attend(operation);
        break;
      case OpKind::fp32:
        is_cpu_ ? set(operation, is_input_half()) : normalise(operation);
        break;
      case OpKind::softmax:
        set(operation, is_cpu_ && is_input_half());
        break;
      case OpKind::loss:
        lose(operation);
        break;
      case OpKind::embedding:
        set(operation, false);
        break;
      case OpKind::pool:
      case OpKind::follow:
        set(operation, is_input_half());
        break;
      case OpKind::unknown:
        compute(operation);
        break;
    }
    // Small results (statistics, scalars, positions) are not inputs of what follows.
    if (input_ == kNone || 64 * bytes(operation.output) >= bytes(input_)) {
      const bool is_weights =
          operation.kind == OpKind::softmax || (is_of_softmax_ && operation.kind == OpKind::follow);
      is_of_softmax_ = is_weights;
      input_ = operation.output;
      input_kind_ = operation.kind;
    }
    recent_.push_back(operation.output);
    if (recent_.size() > kRecentResults) recent_.pop_front();
  }

  // Without a fused kernel torch computes it in fp32 and converts the result back.
  void attend(const Operation& operation) {
    const std::uint64_t scores = facts_.scores_bytes(pass_, operation);
    set(operation, !(is_cpu_ ? facts_.is_attention_written_out(pass_, operation) : scores > 0));
    is_half_[operation.first + operation.count - 1] = 1;
    if (scores > 0 && !is_cpu_) fuse_attention(rewrite_, pass_, operation);
  }

  [[nodiscard]] bool is_input_half() const { return input_ != kNone && is_half_[input_] != 0; }

  void set(const Operation& operation, bool half) {
    for (std::uint32_t place = operation.first; place < operation.first + operation.count;
         ++place) {
      is_half_[place] = half && !is_fixed(facts_, pass_, operation, place) ? 1 : 0;
    }
  }

  // Layers with nothing between them share an input: two products in a row would be one.
  void multiply(std::uint32_t index) {
    const Operation& operation = pass_.operations[index];
    set(operation, true);
    if (index == 0 || input_kind_ != OpKind::matmul) shared_input_ = input_;
    const std::uint32_t input = shared_input_;
    if (input == kNone || is_half_[input] != 0) return;
    copy_input(input, operation.first, (bytes(input) + 1) / 2);
  }

  void normalise(const Operation& operation) {
    set(operation, false);
    if (input_ == kNone || is_half_[input_] == 0) return;
    if (bytes(input_) != bytes(operation.output)) return;
    copy_input(input_, operation.first, bytes(input_));
  }

  // The loss over half-precision logits: their log-softmax is half too, and an fp32 copy of it is
  // saved, unless the program converted the logits to fp32 first.
  void lose(const Operation& operation) {
    set(operation, false);
    const std::uint64_t size = bytes(operation.output);
    if (input_ == kNone || is_half_[input_] == 0 || 2 * size < bytes(input_)) return;
    TimelineRow* result = rewrite_.find(pass_.forward[operation.output]);
    if (result == nullptr) return;
    const std::uint32_t event = birth(operation.output);
    const std::uint32_t stream_pool = result->stream_pool;
    if (is_upcasting_loss(facts_.store(), operation.stack)) {
      rewrite_.timeline
          .insert(before_event(birth(operation.first), 1), after_event(event + operation.count, 1),
                  bytes(input_), MemorySource::activations)
          .stream_pool = stream_pool;
      return;
    }
    is_half_[operation.output] = 1;
    half_loss_bytes_ = size;
    // A program may convert the logits to fp32 itself; in an fp32 run that leaves no trace.
    rewrite_.doubtful_high_bytes = std::max(rewrite_.doubtful_high_bytes, size);
    rewrite_.timeline
        .insert(after_event(event, 1), first_gradient_of_loss(size), size,
                MemorySource::activations)
        .stream_pool = stream_pool;
  }

  // The fp32 copy is no longer needed once backward has computed the first gradient of its size.
  [[nodiscard]] TimelineKey first_gradient_of_loss(std::uint64_t size) const {
    for (const std::uint32_t row : pass_.backward) {
      if (facts_.bytes(row) == size) return after_event(facts_.birth(row), 1);
    }
    return pass_.has_backward() ? after_event(pass_.backward_first, 1) : kTimelineEnd;
  }

  // A line of user code. One that produces many results of one size is a formula, and nearly every
  // formula contains a power, a root or a logarithm, which autocast computes in fp32. Otherwise the
  // result has the higher precision of the inputs; one of them may be an earlier result of the same
  // size, as in a residual connection.
  void compute(const Operation& operation) {
    // Autocast on the CPU does not compute powers in fp32.
    if (is_formula(operation) && is_cpu_) {
      set(operation, is_input_half());
      return;
    }
    if (is_formula(operation)) {
      const bool is_half_input = input_ != kNone && is_half_[input_] != 0;
      set(operation, false);
      is_half_[operation.first] = is_half_input ? 1 : 0;
      if (is_half_input && bytes(input_) == bytes(operation.first))
        copy_input(input_, operation.first + 1, bytes(input_));
      return;
    }
    // The softmax result is multiplied by the values of attention.
    if (is_of_softmax_ && input_ != kNone && bytes(operation.output) != bytes(input_)) {
      set(operation, true);
      const bool is_softmax = input_kind_ == OpKind::softmax;
      TimelineRow* weights = rewrite_.find(pass_.forward[input_]);
      const TimelineKey death = weights == nullptr ? 0 : weights->death;
      copy_input(input_, operation.first, (bytes(input_) + 1) / 2);
      weights = rewrite_.find(pass_.forward[input_]);
      if (is_softmax && weights != nullptr) weights->die_at(death);  // saved for its own backward
      return;
    }
    bool is_half = input_ != kNone && is_half_[input_] != 0;
    for (const std::uint32_t place : recent_) {
      const bool is_there = facts_.death(pass_.forward[place]) > birth(operation.first);
      if (is_there && bytes(place) == bytes(operation.output) && is_half_[place] == 0)
        is_half = false;
    }
    set(operation, is_half);
  }

  [[nodiscard]] bool is_formula(const Operation& operation) const {
    // On the CPU a number in a formula is an allocation of its own, and may come first.
    const std::uint64_t size = bytes(is_cpu_ ? operation.output : operation.first);
    std::uint32_t alike = 0;
    for (std::uint32_t place = operation.first; place < operation.first + operation.count; ++place)
      if (bytes(place) == size) ++alike;
    return alike >= kFormulaLength;
  }

  // --- Backward ---

  void follow_backward(std::size_t index) {
    const std::uint32_t row = pass_.backward[index];
    const std::uint32_t place = pass_.mirror[index];
    if (facts_.source(row) == MemorySource::gradients || is_part_of_gradient(row)) {
      copy_weight(row, place);
      return;
    }
    if (facts_.source(row) == MemorySource::workspace) return;
    if (facts_.bytes(row) == half_loss_bytes_ && half_loss_bytes_ > 0) {
      // The loss's own gradient is fp32, that of the logits is not.
      if (loss_gradients_++ > 0) halve(row);
      return;
    }
    const std::uint32_t alike = nearest_alike(place, facts_.bytes(row));
    if (alike != kNone ? is_half_[alike] != 0 : is_before_matmul(place)) halve(row);
  }

  // For a weight that is used twice: kept until the other part is computed.
  [[nodiscard]] bool is_part_of_gradient(std::uint32_t row) const {
    const std::uint32_t half = (pass_.backward_end - pass_.backward_first) / 2;
    return facts_.is_parameter_size(facts_.bytes(row)) && facts_.death(row) != kNoEvent &&
           facts_.death(row) - facts_.birth(row) > half;
  }

  // The operation whose gradient is computed while the results up to `place` are still needed.
  [[nodiscard]] const Operation* operation_behind(std::uint32_t place) const {
    const std::size_t next = place == kNone ? 0 : pass_.operation_of[place] + 1;
    return next < pass_.operations.size() ? &pass_.operations[next] : nullptr;
  }
  [[nodiscard]] bool is_before_matmul(std::uint32_t place) const {
    const Operation* operation = operation_behind(place);
    return operation != nullptr && operation->kind == OpKind::matmul;
  }

  // Autocast keeps a copy of each weight until its gradient is computed; the gradient is computed
  // in half precision first.
  void copy_weight(std::uint32_t row, std::uint32_t place) {
    if (!is_before_matmul(place)) return;
    const std::uint32_t event = facts_.birth(row);
    const std::uint64_t size = (facts_.bytes(row) + 1) / 2;
    rewrite_.timeline.insert(before_event(birth(operation_behind(place)->first), 0),
                             after_event(event, 1), size, MemorySource::parameters);
    rewrite_.timeline.insert(before_event(event, 1), after_event(event, 2), size,
                             MemorySource::temporaries);
  }

  [[nodiscard]] std::uint32_t nearest_alike(std::uint32_t place, std::uint64_t size) const {
    constexpr std::uint32_t kNear = 10;
    const std::uint32_t from = place == kNone ? 0 : place;
    if (from >= pass_.forward.size()) return kNone;  // a backward whose forward is not recorded
    for (std::uint32_t distance = 0; distance <= kNear; ++distance) {
      const std::uint32_t behind = from + distance;
      if (behind < pass_.forward.size() && bytes(behind) == size) return behind;
      // A pass may have lost its whole forward; then there is no place at all.
      const bool is_before = distance <= from && from - distance < pass_.forward.size();
      if (is_before && bytes(from - distance) == size) return from - distance;
    }
    return kNone;
  }

  Rewrite& rewrite_;
  const RunFacts& facts_;
  const ForwardPass& pass_;
  std::vector<char> is_half_;  // by place
  // Autocast on the CPU has no fp32 list for norms and softmax: they follow their input.
  bool is_cpu_ = facts_.store().facts().kind() == DeviceKind::cpu;
  std::uint32_t input_ = kNone;
  std::uint32_t shared_input_ = kNone;
  OpKind input_kind_ = OpKind::unknown;
  bool is_of_softmax_ = false;  // the input is attention weights
  std::deque<std::uint32_t> recent_;
  std::uint64_t half_loss_bytes_ = 0;
  std::uint32_t loss_gradients_ = 0;
};

}  // namespace

void use_autocast(Rewrite& rewrite) {
  std::uint64_t doubtful = 0;
  for (const ForwardPass& pass : rewrite.facts.passes()) {
    PassPrecision(rewrite, pass).run();
    doubtful = std::max(doubtful, doubtful_recurrent_bytes(rewrite.facts, pass));
  }
  rewrite.doubtful_high_bytes += doubtful;
}

std::optional<std::string> autocast_obstacle(const AdvisedRun& run) {
  const RunFacts& facts = run.facts();
  // Half-precision copies of weights, made in forward: half a parameter's size, at a product.
  std::size_t products = 0;
  std::size_t copies = 0;
  for (const ForwardPass& pass : facts.passes()) {
    for (const Operation& operation : pass.operations) {
      if (operation.kind != OpKind::matmul) continue;
      ++products;
      const std::uint64_t bytes = facts.bytes(pass.forward[operation.first]);
      const bool is_copy = operation.count > 1 && facts.is_parameter_size(2 * bytes);
      copies += is_copy ? 1 : 0;
    }
  }
  if (products == 0 || 3 * copies <= products) return std::nullopt;
  return "The run already uses autocast.";
}

}  // namespace gpumemprof
