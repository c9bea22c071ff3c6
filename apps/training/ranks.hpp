// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/rank_options.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/metrics/of_all_ranks.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/half_batches.hpp>
#include <msstream/step/loss_scale.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {

/// One of the ranks of a training, and how it trains.
struct RankSetting {
  comm::World world = {};
  Parallel parallel = Parallel::data;
  Reproducible reproducible = Reproducible::same_rank_count;
  /// Whether the model has collectives, so that a part without samples takes part in them.
  bool has_collectives = false;
};

/// Returns the device of a rank, made with the options.
template <Runtime R>
[[nodiscard]] Device<R> device_of(comm::World const& world, DeviceOptions<R> const& options) {
  return world.size() > 1 ? comm::device_of<R>(world, options) : Device<R>(options);
}

/// The inputs of a step on a rank that computes several parts of a batch.
template <class Batch>
struct BatchesOfParts {
  std::vector<Batch> batches;
};

/// Returns what the model reads in this rank's part number `part`, from 0.
template <class Batch>
[[nodiscard]] Batch const& inputs_of_part(BatchesOfParts<Batch> const& inputs, int part) {
  return inputs.batches[static_cast<std::size_t>(part)];
}
template <class Inputs>
[[nodiscard]] Inputs const& inputs_of_part(Inputs const& inputs, [[maybe_unused]] int part) {
  return inputs;
}

/// The exchanges of a training with its other ranks. One rank alone has none, unless the bits of
/// its gradients are to be those of several ranks, or its batches are halved.
template <Runtime R>
class Ranks {
 public:
  /// Blocks the host until all ranks have made theirs, and gives them the parameters of rank 0.
  Ranks(Device<R> const& device, Parameters<R> const& parameters, RankSetting const& setting)
      : device_(device), world_(setting.world), has_collectives_(setting.has_collectives) {
    if (setting.parallel == Parallel::half_batches) {
      halves_.emplace(device, parameters, world_);
      communicator_ = halves_->communicator(0);
    } else if (world_.size() > 1 || setting.reproducible == Reproducible::any_rank_count) {
      communicator_.emplace(device, world_);
      parallel_.emplace(
          parameters, *communicator_, DataParallelOptions{.reproducible = setting.reproducible});
    }
  }

  /// Returns whether batches are whole, and nothing is exchanged.
  [[nodiscard]] bool is_alone() const noexcept { return !communicator_; }
  /// Returns whether a rank has two halves of a batch, which should run on different groups.
  [[nodiscard]] bool has_halves() const noexcept { return halves_.has_value(); }
  [[nodiscard]] comm::World const& world() const noexcept { return world_; }
  /// Returns the number of this rank if there are several.
  [[nodiscard]] std::optional<int> rank_of_several() const noexcept {
    return world_.size() > 1 ? std::optional(world_.rank()) : std::nullopt;
  }
  [[nodiscard]] int parts() const noexcept {
    return halves_ ? halves_->parts() : parallel_ ? parallel_->parts() : 1;
  }
  [[nodiscard]] int own_parts() const noexcept { return parts() / world_.size(); }

  /// Calls `part_loss(part)` for each of this rank's parts, from 0 to own_parts(), which returns
  /// the mean loss of its samples, and plays them back. A part without samples is left out, unless
  /// the model has collectives. Leaves the
  /// gradients of the whole batch on the tape, times the scale if there is one, and returns its
  /// loss, without the scale. Part `part` has `samples[part]` of the `all_samples` of the batch.
  template <class PartLoss>
  [[nodiscard]] Tensor<float, R> backward(GradientTape<R>& tape,
                                          std::vector<std::int64_t> const& samples,
                                          std::int64_t all_samples,
                                          std::optional<LossScale<R>> const& scale,
                                          PartLoss&& part_loss) const {
    if (is_alone()) {
      Tensor<float, R> loss = part_loss(0);
      tape.backward(scale ? scale->scaled(tape, loss) : loss);
      return loss;
    }
    auto const loss_of = [&](int number) -> std::optional<Tensor<float, R>> {
      auto const own = samples[static_cast<std::size_t>(number)];
      if (own == 0 && !has_collectives_) {
        return std::nullopt;
      }
      Tensor<float, R> loss = part_loss(number);
      return own * parts() == all_samples
                 ? loss
                 : ops::scale(tape,
                              loss,
                              static_cast<float>(own * parts()) / static_cast<float>(all_samples));
    };
    auto const loss_of_part = [&](int part) { return loss_of(part - parallel_->first_part()); };
    if (scale) {
      return halves_ ? halves_->backward(tape, loss_of, *scale)
                     : parallel_->backward_in_parts(tape, loss_of_part, *scale);
    }
    return halves_ ? halves_->backward(tape, loss_of)
                   : parallel_->backward_in_parts(tape, loss_of_part);
  }

  /// Trains on all parts of this rank, which have equally many samples, and returns the mean of the
  /// losses of all parts.
  template <class PartLoss>
  [[nodiscard]] Tensor<float, R> backward(GradientTape<R>& tape,
                                          std::optional<LossScale<R>> const& scale,
                                          PartLoss&& part_loss) const {
    return backward(tape,
                    std::vector<std::int64_t>(static_cast<std::size_t>(own_parts()), 1),
                    parts(),
                    scale,
                    part_loss);
  }

  /// Returns the options of the loaders of this rank's parts, from those of whole batches.
  [[nodiscard]] std::vector<data::LoaderOptions> loaders_of_parts(
      data::LoaderOptions const& whole) const {
    std::vector<data::LoaderOptions> loaders(static_cast<std::size_t>(own_parts()), whole);
    int part = world_.rank() * own_parts();
    for (auto& loader : loaders) {
      loader.batch_size = whole.batch_size / parts();
      loader.threads = std::max(1, whole.threads / own_parts());
      loader.rank = part++;
      loader.ranks = parts();
    }
    return loaders;
  }
  /// Returns the options of a loader of rows that the ranks evaluate together, each with batches of
  /// `alone.batch_size` rows, from those of a rank that is alone. Batches have one shape, so that
  /// the bits of a row do not depend on the number of ranks.
  [[nodiscard]] data::LoaderOptions loader_to_evaluate(data::LoaderOptions alone) const {
    if (!is_alone()) {
      alone.rank = world_.rank();
      alone.ranks = world_.size();
      alone.last_batch = data::LastBatch::padded;
    }
    return alone;
  }
  /// Returns the number of rows, those that pad included, that of_all_ranks() returns for `rows`
  /// rows in batches of `batch_size` on each rank.
  [[nodiscard]] std::int64_t rows_to_evaluate(std::int64_t rows, std::int64_t batch_size) const {
    auto const of_all = batch_size * world_.size();
    return is_alone() ? rows : (rows + of_all - 1) / of_all * of_all;
  }
  /// Returns the examples of all ranks, which have batches of one size, or those of the rank itself
  /// if it is alone.
  [[nodiscard]] metrics::Batch<R> of_all_ranks(metrics::Batch<R> const& own) const {
    return communicator_ ? metrics::of_all_ranks(*communicator_, own, own.scores.count()) : own;
  }

  /// Returns the texts of all ranks, in their order. All ranks call it, and wait for each other.
  [[nodiscard]] std::vector<std::string> texts_of_all(std::string const& own) const {
    return communicator_ ? communicator_->exchange(own) : std::vector{own};
  }

  /// Calls `function()` on one rank after the other, for what ranks that are threads share. All
  /// ranks call it. Blocks the host until the last one is done.
  template <class Function>
  void in_turn(Function&& function) const {
    for (int rank = 0; rank < world_.size(); ++rank) {
      if (rank == world_.rank()) {
        function();
      }
      if (communicator_) {
        comm::barrier(*communicator_);
        communicator_->synchronize();
      }
    }
  }

 private:
  Device<R> device_;
  comm::World world_;
  bool has_collectives_;
  std::optional<comm::Communicator<R>> communicator_;
  std::optional<DataParallel<R>> parallel_;
  std::optional<HalfBatches<R>> halves_;
};

}  // namespace msstream::training
