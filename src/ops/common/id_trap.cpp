// SPDX-License-Identifier: Apache-2.0
#include "ops/common/id_trap.hpp"

#include "memory/device/device_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

/// The reports of bad ids and bad bags that a device's kernels have made in operations with
/// OutOfRange::trap. The host checks for reports whenever it waits for the device.
class IdTraps {
 public:
  explicit IdTraps(msstream::detail::DeviceState& device)
      : runtime_(device.context->runtime),
        trap_(new (runtime_->allocate_pinned(sizeof(kernels::IdTrap))) kernels::IdTrap{},
              {runtime_.get()}) {
    device.add_check([this] { check(); });
  }

  [[nodiscard]] kernels::IdTrap* trap() const noexcept { return trap_.get(); }
  /// An operation with OutOfRange::trap.
  struct Operation {
    std::string name;
    std::vector<std::string> tables;

    [[nodiscard]] bool operator==(Operation const&) const = default;
    /// Returns the name of table number `table`, or its number if it has none.
    [[nodiscard]] std::string name_of_table(std::int64_t table) const {
      auto const number = static_cast<std::size_t>(table);
      return number < tables.size() ? fmt::format("'{}'", tables[number]) : std::to_string(table);
    }
  };
  /// Returns the number by which a kernel's report refers to the operation.
  [[nodiscard]] std::uint32_t number_of(Operation operation) {
    std::lock_guard const guard(mutex_);
    auto const known = std::ranges::find(operations_, operation);
    auto const number = known - operations_.begin();
    if (known == operations_.end()) {
      operations_.push_back(std::move(operation));
    }
    return static_cast<std::uint32_t>(number);
  }

 private:
  struct FreePinned {
    msstream::detail::Backend* runtime;
    void operator()(kernels::IdTrap* trap) const noexcept {
      runtime->free_pinned(trap, sizeof(kernels::IdTrap));
    }
  };

  /// Throws std::out_of_range if a kernel has reported a bad id or a bad bag, and resets the trap,
  /// so that each report is thrown once.
  void check() {
    std::atomic_ref<std::uint32_t> set(trap_->set);
    if (set.load(std::memory_order_acquire) != 1) {
      return;
    }
    std::lock_guard const guard(mutex_);
    auto const& operation = operations_.at(trap_->operation);
    auto const& name = operation.name;
    auto const& caught = trap_->caught;
    auto const message =
        caught.bag == kernels::kTooManyRows
            ? fmt::format("{}: {} distinct rows; expected at most {}", name, caught.id, caught.rows)
        : caught.bag < 0
            ? fmt::format("{}: id {} outside [0, {}){}",
                          name,
                          caught.id,
                          caught.rows,
                          caught.end > 0
                              ? fmt::format(" of table {}", operation.name_of_table(caught.end - 1))
                              : "")
            : fmt::format(
                  "{}: bag {} from offset {} to {}; expected offsets that ascend within [0, {}]",
                  name,
                  caught.bag,
                  caught.id,
                  caught.end,
                  caught.rows);
    set.store(0, std::memory_order_release);
    throw std::out_of_range(message);
  }

  std::shared_ptr<msstream::detail::Backend> runtime_;
  std::unique_ptr<kernels::IdTrap, FreePinned> trap_;
  std::mutex mutex_;
  std::vector<Operation> operations_;
};

}  // namespace

TrapOfOperation trap_of(msstream::detail::DeviceState& device,
                        char const* operation,
                        std::vector<std::string> tables) {
  auto& traps = device.attachment<IdTraps>();
  return {traps.trap(), traps.number_of({NameScope::qualify(operation), std::move(tables)})};
}

kernels::IdReport id_report(char const* operation,
                            DeviceState& device,
                            ReportPolicy const& policy,
                            std::optional<TensorOf<std::int64_t>> const& counter,
                            msstream::detail::Uses<AnyRuntime, AccessMode::write>& written) {
  require(counter.has_value() == (policy.out_of_range == OutOfRange::count),
          "{}: {} goes with OutOfRange::count",
          operation,
          policy.counter);
  require(!counter || counter->count() == 1,
          "{}: {} of shape {}; expected a scalar",
          operation,
          policy.counter,
          counter ? counter->shape() : Shape{});
  kernels::IdReport report;
  if (counter) {
    report.count = reinterpret_cast<std::uint64_t*>(counter->data());
    written.add(*counter);
  }
  if (policy.out_of_range == OutOfRange::trap) {
    auto const trap = trap_of(device, operation, policy.tables);
    report.trap = trap.trap;
    report.operation = trap.operation;
  }
  return report;
}

}  // namespace msstream::ops::detail
