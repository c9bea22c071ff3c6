// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/ops/kernels/id_report.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/tensor/tensor.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::ops::detail {

/// One device's report of bad ids and bad bags in operations with OutOfRange::trap. It is checked
/// whenever the host waits for the device.
template <Runtime R>
class IdTraps {
 public:
  explicit IdTraps(DeviceState<R>& device)
      : runtime_(device.context->runtime),
        trap_(new (runtime_->allocate_pinned(sizeof(kernels::IdTrap))) kernels::IdTrap{},
              {runtime_.get()}) {
    device.add_check([this] { check(); });
  }

  [[nodiscard]] kernels::IdTrap* trap() const noexcept { return trap_.get(); }
  /// Returns the number that stands for the operation's name in the kernel's report.
  [[nodiscard]] std::uint32_t operation(std::string name) {
    std::lock_guard const guard(mutex_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) {
        return static_cast<std::uint32_t>(i);
      }
    }
    names_.push_back(std::move(name));
    return static_cast<std::uint32_t>(names_.size() - 1);
  }

 private:
  struct FreePinned {
    R* runtime;
    void operator()(kernels::IdTrap* trap) const noexcept {
      runtime->free_pinned(trap, sizeof(kernels::IdTrap));
    }
  };

  /// If a bad id or bag was caught, resets the trap and throws std::out_of_range; each catch is
  /// thrown once.
  void check() {
    std::atomic_ref<std::uint32_t> set(trap_->set);
    if (set.load(std::memory_order_acquire) != 1) {
      return;
    }
    std::lock_guard const guard(mutex_);
    auto const& name = names_.at(trap_->operation);
    auto const& caught = trap_->caught;
    auto const message = caught.bag < 0
                             ? text(name, ": id ", caught.id, " outside [0, ", caught.rows, ")")
                             : text(name,
                                    ": bag ",
                                    caught.bag,
                                    " from offset ",
                                    caught.id,
                                    " to ",
                                    caught.end,
                                    "; expected offsets that ascend within [0, ",
                                    caught.rows,
                                    "]");
    set.store(0, std::memory_order_release);
    throw std::out_of_range(message);
  }

  std::shared_ptr<R> runtime_;
  std::unique_ptr<kernels::IdTrap, FreePinned> trap_;
  std::mutex mutex_;
  std::vector<std::string> names_;
};

/// The policy for bad ids or bags, and the name of the counter in error messages.
struct ReportPolicy {
  OutOfRange out_of_range;
  char const* counter;

  ReportPolicy(OutOfRange policy,  // NOLINT(google-explicit-constructor): the policy alone is usual
               char const* counter_name = "bad_id_count")
      : out_of_range(policy), counter(counter_name) {}
};

/// Returns where `operation` reports bad ids and bags. A counter is added to the tensors that the
/// operation writes. Throws std::invalid_argument unless a scalar counter is given exactly if the
/// policy is OutOfRange::count.
template <Runtime R, class Written>
kernels::IdReport id_report(char const* operation,
                            DeviceState<R>& device,
                            ReportPolicy const& policy,
                            std::optional<Tensor<std::int64_t, R>> const& counter,
                            Written& written) {
  require(counter.has_value() == (policy.out_of_range == OutOfRange::count),
          operation,
          ": ",
          policy.counter,
          " goes with OutOfRange::count");
  require(!counter || counter->count() == 1,
          operation,
          ": ",
          policy.counter,
          " of shape ",
          counter ? counter->shape() : Shape{},
          "; expected a scalar");
  kernels::IdReport report;
  if (counter) {
    report.count = reinterpret_cast<std::uint64_t*>(counter->data());
    written.add(*counter);
  }
  if (policy.out_of_range == OutOfRange::trap) {
    auto& traps = device.template attachment<IdTraps<R>>();
    report.trap = traps.trap();
    report.operation = traps.operation(NameScope::qualify(operation));
  }
  return report;
}

}  // namespace msstream::ops::detail
