// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/lookahead.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/sharded_tables.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace msstream::training {

/// The lookups of a model in tables that are in parts on all ranks, one in each step, with what is
/// sent ahead of them.
///
/// A step looks ahead if it is given the keys of the next one, which must then follow. Its ids,
/// and its prefetched rows, are kept at fixed addresses, so that a captured step, too, looks ahead.
/// All steps that look ahead have equally many samples on a rank. Copies share the tables and what
/// was sent. Use it on one thread.
template <Runtime R>
class LookupsInParts {
 public:
  explicit LookupsInParts(ShardedTables<R> tables, Lookahead lookahead = Lookahead::none)
      : tables_(std::move(tables)), lookahead_(lookahead) {}

  [[nodiscard]] ShardedTables<R> const& tables() const noexcept { return tables_; }
  [[nodiscard]] bool looks_ahead() const noexcept { return lookahead_ != Lookahead::none; }
  /// Returns whether the ids of the next step have been sent.
  [[nodiscard]] bool is_ahead() const noexcept { return sent_->is_ahead; }

  /// Returns the pooled rows of the samples of a batch, [samples, width]. `keys` are one tensor, or
  /// whatever else a program has of a batch: `bags_of(keys)` returns the bags of all tables. With
  /// `next_keys`, those of the next step, looks ahead: their bags are made on the last group of the
  /// pool. Without gradients, as in a test, the step is no training step, and leaves alone what was
  /// sent. All ranks call it, also one without samples.
  template <class Keys, class BagsOf>
  [[nodiscard]] Tensor<float, R> lookup(GradientTape<R>& tape,
                                        StreamPool<R>& pool,
                                        Keys const& keys,
                                        std::optional<Keys> const& next_keys,
                                        BagsOf const& bags_of) const {
    if (tape.is_recording()) {
      sent_->next.reset();  // that of a step that has thrown
    }
    if (!tape.is_recording() || (!next_keys && !is_ahead())) {
      return tables_.lookup(tape, bags_of(keys));
    }
    if (!is_ahead()) {
      auto const first = tables_.exchange(bags_of(keys));
      keep(with_rows(first, first));
    }
    auto const now = *sent_->kept;
    auto pooled = tables_.lookup(tape, now);
    if (next_keys) {
      auto const bags = [&] {
        StreamScope<R> const side(pool[pool.groups() - 1]);
        return bags_of(*next_keys);
      }();
      sent_->next = with_rows(tables_.exchange(bags), now);
    }
    return pooled;
  }
  /// Ends a training step, behind its update: what was sent for the next one takes the place of
  /// what this one has used.
  void end_step() const {
    sent_->is_ahead = sent_->next.has_value();
    if (auto const next = std::exchange(sent_->next, std::nullopt)) {
      keep(*next);
    }
  }

 private:
  struct Sent {
    std::optional<ShardedIds<R>> kept;  ///< at fixed addresses
    std::optional<ShardedIds<R>> next;  ///< from a lookup to the end of its step
    bool is_ahead = false;              ///< whether `kept` has the ids of the next step
  };

  void keep(ShardedIds<R> const& ids) const {
    if (sent_->kept) {
      sent_->kept->assign(ids);
    } else {
      sent_->kept = ids;
    }
  }
  [[nodiscard]] ShardedIds<R> with_rows(ShardedIds<R> const& next, ShardedIds<R> const& now) const {
    switch (lookahead_) {
      case Lookahead::rows:
        return tables_.prefetch_rows(next, now);
      case Lookahead::stale_rows:
        return tables_.prefetch_stale_rows(next);
      default:
        return next;
    }
  }

  ShardedTables<R> tables_;
  Lookahead lookahead_;
  std::shared_ptr<Sent> sent_ = std::make_shared<Sent>();
};

/// Returns the lookups of a model that has a function in_parts(), unless the model has its tables
/// itself; null for other models.
template <Runtime R, class Model>
[[nodiscard]] LookupsInParts<R> const* lookups_in_parts([[maybe_unused]] Model const& model) {
  if constexpr (requires { model.in_parts(); }) {
    return model.in_parts() ? &*model.in_parts() : nullptr;
  } else {
    return nullptr;
  }
}

}  // namespace msstream::training
