// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "metrics/metric_update.hpp"

#include <msstream/metrics/detail/any_metric.hpp>
#include <msstream/tensor/detail/typed.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::metrics::detail {

namespace kernels = ops::kernels;
using msstream::detail::DeviceState;
using msstream::detail::TensorOf;
using Reads = msstream::detail::Uses<AnyRuntime, AccessMode::read>;
using Writes = msstream::detail::Uses<AnyRuntime, AccessMode::write>;
using AnyBatch = Batch<AnyRuntime>;

/// The number of int64 elements of a tensor that begins with a Tally.
inline constexpr std::int64_t kTallyElements = sizeof(kernels::Tally) / sizeof(std::int64_t);

/// The state of a metric. Its words are a kernels::Tally, with what a metric adds behind it. Not
/// synchronised on the host, where it does not change.
class MetricState {
 public:
  /// Makes the state of no examples, with `words` int64 elements behind the Tally.
  MetricState(std::shared_ptr<DeviceState> const& device,
              std::string name,
              std::int64_t words,
              std::source_location issued_at);
  MetricState(MetricState const&) = delete;
  MetricState& operator=(MetricState const&) = delete;
  virtual ~MetricState() = default;

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] std::shared_ptr<DeviceState> const& device() const noexcept {
    return words_.device();
  }
  /// Returns the arguments by which the kernel adds a batch. Throws std::invalid_argument for a
  /// batch that the metric does not take.
  [[nodiscard]] kernels::MetricUpdate update_of(AnyBatch const& batch) const;
  /// Throws std::length_error if the metric has no room for `rows` more examples, as far as the
  /// host knows: it does not know counts on the device and replays.
  virtual void require_room(std::int64_t) const {}
  /// Notes that an update adds `rows` examples, outside a capture.
  virtual void note_examples(std::int64_t) const {}
  /// Adds the tensors of the metric and of the batch that an update reads only, besides the scores,
  /// labels, weights and count of the batch.
  virtual void add_reads(AnyBatch const&, Reads&) const {}
  /// Adds the tensors that an update writes.
  virtual void add_writes(Writes& written) const { written.add(words_); }
  [[nodiscard]] virtual std::optional<double> value(std::source_location issued_at) const = 0;
  void reset(std::source_location issued_at) const;
  /// Adds the sums of another metric. Throws std::invalid_argument for a metric that is no sum of
  /// the same terms on the same device.
  void merge(MetricState const& other, std::source_location issued_at) const;
  /// Notes a reset().
  virtual void note_reset() const {}
  /// Adds the tensors of the state, for a checkpoint.
  virtual void add_tensors(std::vector<StateTensor>& to) const;
  /// Returns the name of what the state has, with the options; equal for states that can take each
  /// other's place.
  [[nodiscard]] virtual std::string kind() const { return sum().of; }
  /// Notes that the tensors have others' elements.
  virtual void note_load() const {}
  /// Returns the name of a tensor of the state in a checkpoint.
  [[nodiscard]] std::string name_of(char const* tensor) const;

 protected:
  /// The messages about bad scores, labels and weights, which follow their number.
  struct Faults {
    char const* scores =
        "examples since the last reset() have scores that are NaN, or probabilities outside [0, 1]";
    char const* labels = "examples since the last reset() have labels outside [0, 1]";
    char const* weights = "examples since the last reset() have weights outside [0, 2^26]";
  };
  /// The name of what a state sums, equal for states that can be added to each other.
  struct Sum {
    std::string of;
    int tally_words = kernels::Tally::words;  ///< the first words of the tally, which are sums
    std::optional<std::int64_t> words = {};   ///< behind the tally, which are sums; null: all
  };
  /// The tally and the words behind it, on the host.
  struct Read {
    kernels::Tally tally;
    std::vector<std::uint64_t> words;
  };
  /// Waits for the updates so far, and returns the words. Throws std::invalid_argument if examples
  /// had bad numbers.
  [[nodiscard]] Read read(std::source_location issued_at, Faults const& faults) const;
  /// Throws std::invalid_argument unless a batch has weights exactly if the metric takes some.
  void require_weights(bool weighted, AnyBatch const& batch) const;
  /// Throws std::length_error for more than 2^bits examples, whose sums may have overflowed.
  void require_exact(kernels::Tally const& tally, unsigned bits) const;
  [[nodiscard]] std::uint64_t* words() const noexcept;
  /// Returns the number of examples of a batch. Throws std::invalid_argument for a batch that lacks
  /// what the metric needs.
  [[nodiscard]] virtual std::int64_t rows_of(AnyBatch const& batch) const;

 private:
  /// Sets the members of `update` that depend on the metric. The members that all metrics share are
  /// set. Throws std::invalid_argument for a batch that the metric does not take.
  virtual void complete(kernels::MetricUpdate& update, AnyBatch const& batch) const = 0;
  /// Throws std::invalid_argument if the state is not a sum.
  [[nodiscard]] virtual Sum sum() const = 0;

  std::string name_;
  TensorOf<std::int64_t> words_;
};

}  // namespace msstream::metrics::detail
