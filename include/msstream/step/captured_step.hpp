// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/log_line.hpp>
#include <msstream/capture/detail/any_captured_step.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream {

/// Memory that captured steps share for the tensors that they create inside. The steps take as much
/// memory together as the step that needs most, and one workspace per group for the libraries,
/// instead of the sum over all steps.
///
///     StepMemory memory(device);
///     CapturedStep small(device, [&] { train(batch_of_256); }, memory);
///     CapturedStep large(device, [&] { train(batch_of_4096); }, memory);
///
/// Steps that share memory do not run concurrently: each replay is ordered after the previous
/// replay of any of them. A tensor that is created inside a step and lives on after it belongs to
/// that step alone; its memory stays allocated until the last of the steps and of the copies of
/// this object is destroyed. Copies refer to the same memory. Thread-safe except for captures:
/// throws std::logic_error if two threads capture in the memory at once.
template <CapturingRuntime R = DefaultRuntime>
class StepMemory {
 public:
  explicit StepMemory(Device<R> const& device)
      : memory_(detail::make_step_memory(device.engine(), nullptr)) {}
  /// Makes memory for steps that are always replayed on `group`, whatever the current group is.
  /// Operations that the steps issue to `group` use the group's own library workspace. Throws
  /// std::invalid_argument for a group of another device.
  StepMemory(Device<R> const& device, StreamGroup<R> const& group)
      : memory_(detail::make_step_memory(device.engine(), group.share_engine())) {}

  [[nodiscard]] std::shared_ptr<detail::CaptureMemory> const& engine() const noexcept {
    return memory_;
  }

 private:
  std::shared_ptr<detail::CaptureMemory> memory_;
};

template <Runtime R>
StepMemory(Device<R> const&) -> StepMemory<R>;
template <Runtime R>
StepMemory(Device<R> const&, StreamGroup<R> const&) -> StepMemory<R>;

/// A step that is captured once and then replayed as one operation. A replay costs the host one
/// launch, however many operations, groups and tensors the step consists of.
///
///     train(batch);  // once without capture, which creates what is created on first use
///     CapturedStep step(device, [&] { loss = train(batch); });
///     for (...) {
///       copy(batch, next);  // in place: a replay reads the tensors that were captured
///       step.replay();
///     }
///
/// The operations that `function` issues to the device are captured and do not run. `function` may
/// use any groups, create and drop tensors, and call anything that issues operations. Like any
/// operation, a replay is ordered after earlier uses of all tensors that it reads or writes, and
/// before later uses. Each replay writes the tensors that were created inside and still live. Host
/// code inside `function` runs once, at capture. Inside `function`, a wait for captured work and an
/// upload that each replay would repeat, such as to_device(), throw std::logic_error. Other threads
/// may issue work meanwhile, which is not captured; they may use tensors created inside once the
/// constructor has returned.
///
/// The step owns references to the outside tensors that it uses, and the memory of the tensors
/// created inside. Nothing else may use that memory, although most of it is unused between the
/// operations; several steps may share it through a StepMemory. The destructor does not block: the
/// memory is released once the last replay is complete and a thread waits for the device, runs out
/// of memory, or captures. Thread-safe except for destruction.
template <CapturingRuntime R = DefaultRuntime>
class CapturedStep {
 public:
  /// Captures the operations of `function`, in memory of its own. Throws what `function` throws and
  /// what a capture throws. Throws std::logic_error inside the capture of another step on the
  /// device; for an operation that may not be captured because its work waits for the device (the
  /// message has its name); and for a TensorHolder on a captured stream that is still open at the
  /// end (the message has the place of its hold()). After an exception nothing remains of the
  /// capture. Tensors that it made and that still live have no contents: until they are written, an
  /// operation that reads one throws std::logic_error, such as backward() for a tape that was not
  /// cleared.
  template <class F>
  CapturedStep(Device<R> const& device, F&& function)
      : CapturedStep(device, std::forward<F>(function), nullptr) {}
  /// Captures the operations of `function` in memory that other steps of the device may share.
  template <class F>
  CapturedStep(Device<R> const& device, F&& function, StepMemory<R> const& memory)
      : CapturedStep(device, std::forward<F>(function), memory.engine()) {}
  CapturedStep(CapturedStep const&) = delete;
  CapturedStep& operator=(CapturedStep const&) = delete;

  /// Issues the step as one operation, named "replay", and returns its position. The operation's
  /// group is that of the step's StepMemory, if the memory has a group; otherwise the group that a
  /// pool's assignment gives "replay"; otherwise the current group.
  ///
  /// Throws std::logic_error inside a capture on the device, if a tensor that the step writes has
  /// been frozen, if one that it used while it was frozen has been unfrozen, and if the step copies
  /// from a PinnedArray that only captured steps still own and that none of them writes.
  /// `issued_at` is used in the reports of a checking runtime, which checks the uses of all
  /// captured operations.
  order::Position replay(std::source_location issued_at = std::source_location::current()) {
    return any_.replay(issued_at);
  }
  /// Returns the runtime's native handle of the step's graph. Launches of the handle by
  /// launch_graph() are not tracked: the caller must order them with all other uses of the step's
  /// tensors and memory, and the last launch must be complete before the step is destroyed. Throws
  /// std::logic_error for a step that uses OptimizerOptions::copies.
  [[nodiscard]] typename R::native_graph native() const {
    return static_cast<typename R::native_graph>(any_.native());
  }

 private:
  template <class F>
  CapturedStep(Device<R> const& device, F&& function, std::shared_ptr<detail::CaptureMemory> memory)
      : any_(device.engine(), std::move(memory), [&] {
          static_cast<void>(std::forward<F>(function)());
        }) {}

  detail::AnyCapturedStep any_;
};

template <Runtime R, class F>
CapturedStep(Device<R> const&, F&&) -> CapturedStep<R>;

namespace detail {

/// The untyped interface to the inputs of a CapturedSteps for one capacity, and to the step's
/// result with these inputs. The user chooses the types of both.
class InputsOfStep {
 public:
  InputsOfStep() = default;
  InputsOfStep(InputsOfStep const&) = delete;
  InputsOfStep& operator=(InputsOfStep const&) = delete;
  virtual ~InputsOfStep() = default;

  /// Runs the step with the inputs, and keeps the step's result.
  virtual void run() = 0;
  virtual void drop_result() noexcept = 0;
};

/// The implementation of CapturedSteps, compiled once for all runtimes that can capture.
class AnyCapturedSteps {
 public:
  struct Options {
    /// The capacities, ascending, in examples, ids or any other unit. A batch runs in the step that
    /// was captured for the smallest capacity that holds it.
    std::vector<std::int64_t> capacities = {};
    /// The maximum number of captured steps that are kept. Each has its own inputs and memory,
    /// which steps for other capacities do not share. If there are more steps, or if there is no
    /// memory for another one, the least recently used step is evicted.
    std::size_t most_kept = 8;
    /// The number of batches of a capacity that run eagerly before its step is captured, so that
    /// objects that are created on first use exist at capture.
    std::int64_t eager_first = 1;
    /// A function that receives one line of text for each capacity that stays eager, and for the
    /// 1st, 2nd, 4th, 8th … capture of a capacity, eviction of a step, and batch that is above
    /// every capacity.
    std::function<void(std::string const&)> log = detail::log_line;
  };
  /// The numbers of captures, of evictions, and of batches by the way in which they ran.
  struct Counts {
    std::uint64_t replays = 0;  ///< by a captured step, including its first replay
    std::uint64_t captures = 0;
    std::uint64_t evictions = 0;     ///< steps evicted for their number or for lack of memory
    std::uint64_t eager_first = 0;   ///< eager, before the capture for their capacity
    std::uint64_t too_large = 0;     ///< eager, because they are above every capacity
    std::uint64_t not_captured = 0;  ///< eager, because the capture for their capacity failed
  };
  using Make = std::function<std::shared_ptr<InputsOfStep>(std::int64_t capacity)>;
  using Fill = std::function<void(InputsOfStep&)>;
  /// The inputs of a batch, with the step's result.
  struct Ran {
    std::shared_ptr<InputsOfStep> inputs;
    bool by_replay;  ///< whether the result is that of a captured step, which needs it again
  };

  AnyCapturedSteps(AnyDevice device, Make make, Options options);
  AnyCapturedSteps(AnyCapturedSteps&&) noexcept;
  AnyCapturedSteps& operator=(AnyCapturedSteps&&) noexcept;
  ~AnyCapturedSteps();

  [[nodiscard]] Ran run(std::int64_t count, Fill const& fill, std::source_location issued_at);
  [[nodiscard]] Counts const& counts() const noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

/// A step for batches of any size. It is captured for several capacities, and each batch is run by
/// a replay for a capacity that holds it.
///
///     CapturedSteps steps(
///         device,
///         [&](std::int64_t capacity) { return Inputs(device, capacity); },
///         [&](Inputs const& inputs) { return train(inputs); },  // the loss
///         {.capacities = {256, 1024, 4096}});
///     for (...) {
///       auto const loss = steps.run(batch.ids, [&](Inputs const& inputs) { inputs.take(batch); });
///     }
///
/// Each capacity has its own inputs, which are made when first needed. `fill` writes a batch into
/// the inputs in place, by copies or any other operations. The step reads on the device how much of
/// the capacity the batch fills. A batch that is above every capacity gets inputs of its size and
/// runs eagerly. If the capture for a capacity fails, because of an operation that may not be
/// captured or for lack of memory with no other step to evict, but the step runs eagerly, later
/// batches of that capacity run eagerly.
///
/// Each capacity's step has its own memory, for its inputs and for all tensors that it creates, and
/// the memory of all kept steps adds up. If memory runs out, other steps are evicted, the least
/// recently used first; the host waits for the last replay of an evicted step. After each eviction,
/// the call that threw OutOfMemory is repeated: `make`; `fill`, which must tolerate a second call;
/// the capture, in which nothing runs; and an eager step that has issued nothing to the device. An
/// eager step that has issued operations is not repeated, because these may include an update of
/// parameters; its OutOfMemory is passed to the caller, and a step is evicted all the same, for the
/// next batch. State that a step keeps on the host, such as a tape, must be cleared at the
/// beginning of each call. Capacities that do not fit into memory together are captured again each
/// time they are needed; see `counts().evictions`. Not synchronised.
template <CapturingRuntime R, class Inputs, class Result>
class CapturedSteps {
 public:
  using Options = detail::AnyCapturedSteps::Options;
  using Counts = detail::AnyCapturedSteps::Counts;
  /// Makes the inputs of one capacity, which keep their addresses.
  using Make = std::function<Inputs(std::int64_t capacity)>;
  /// Issues the step on inputs, and returns its result, such as the loss.
  using Step = std::function<Result(Inputs const&)>;

  /// Makes an object that captures steps when batches need them. Throws std::invalid_argument for
  /// capacities that are not positive and ascending, and for `most_kept` or `eager_first` out of
  /// range.
  CapturedSteps(Device<R> device, Make make, Step step, Options options)
      : any_(device.engine(),
             make_typed(std::move(make), std::make_shared<Step>(std::move(step))),
             std::move(options)) {}

  /// Runs the step on a batch of `count` and returns its result. A captured step returns the same
  /// tensors each time; each replay writes them. Exceptions of `fill`, of the making of inputs and
  /// of the step are passed to the caller; the next batch starts again at the part that failed.
  template <class Fill>
  Result run(std::int64_t count,
             Fill&& fill,
             std::source_location issued_at = std::source_location::current()) {
    return result_of(any_.run(
        count, [&](auto& place) { fill(static_cast<Place const&>(place).inputs); }, issued_at));
  }

  /// Returns how the batches so far have run, and how often steps were captured and evicted.
  [[nodiscard]] Counts const& counts() const noexcept { return any_.counts(); }

 private:
  struct Place : detail::InputsOfStep {
    Place(Inputs made, std::shared_ptr<Step> shared_step)
        : inputs(std::move(made)), step(std::move(shared_step)) {}
    void run() override { result.emplace((*step)(inputs)); }
    void drop_result() noexcept override { result.reset(); }

    Inputs const inputs;
    std::shared_ptr<Step> step;  ///< one for all inputs
    std::optional<Result> result = {};
  };

  [[nodiscard]] static detail::AnyCapturedSteps::Make make_typed(Make make,
                                                                 std::shared_ptr<Step> step) {
    return [make = std::move(make), step = std::move(step)](std::int64_t capacity) {
      return std::make_shared<Place>(make(capacity), step);
    };
  }
  [[nodiscard]] static Result result_of(detail::AnyCapturedSteps::Ran const& ran) {
    auto& result = static_cast<Place&>(*ran.inputs).result;
    return ran.by_replay ? *result : *std::exchange(result, std::nullopt);
  }

  detail::AnyCapturedSteps any_;
};

template <CapturingRuntime R, class Make, class Step>
CapturedSteps(Device<R>, Make, Step, detail::AnyCapturedSteps::Options)
    -> CapturedSteps<R,
                     std::invoke_result_t<Make, std::int64_t>,
                     std::invoke_result_t<Step, std::invoke_result_t<Make, std::int64_t> const&>>;

}  // namespace msstream
