// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/gradient_buckets.hpp"

#include "step/engine_queries.hpp"
#include "step/parallel/or_give_up.hpp"

#include <msstream/base/format.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

namespace msstream::detail {
namespace {

/// Kernels read gradients that begin at multiples of this many elements four at a time.
constexpr std::int64_t kAlignment = 4;

/// A quarter of all gradients is the most of a bucket only if it is more bytes than these: a
/// collective of fewer takes hardly less time than one of so many.
constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20U;

[[nodiscard]] std::int64_t next_multiple(std::int64_t count, std::int64_t of) {
  return (count + of - 1) / of * of;
}

}  // namespace

GradientBuckets::GradientBuckets(AnyTape& tape,
                                 Parameters<AnyRuntime> const& parameters,
                                 comm::detail::AnyCommunicator const& communicator,
                                 DataParallelOptions const& options,
                                 int parts_of_all,
                                 comm::detail::RowBuffers& buffers,
                                 std::source_location issued_at)
    : tape_(tape),
      communicator_(communicator),
      options_(options),
      parts_of_all_(parts_of_all),
      row_buffers_(buffers),
      issued_at_(issued_at) {
  std::vector<Part> parts;
  parameters.for_each([&](std::string const& name, AnyTensor const& tensor, auto kind) {
    if (kind == Parameters<AnyRuntime>::Kind::table) {
      tables_.push_back({name, tensor});
    } else if (kind == Parameters<AnyRuntime>::Kind::dense && !tensor.immutable() &&
               tensor.count() != 0) {
      parts.push_back({name, Floats(tensor), std::numeric_limits<std::size_t>::max(), {}});
    }
  });
  std::int64_t all_bytes = 0;
  for (auto const& part : parts) {
    all_bytes += static_cast<std::int64_t>(part.parameter.bytes());
  }
  // The last bucket is exchanged behind the backward, beside nothing.
  auto const most_bytes = std::min(options.bucket_bytes, std::max(kLeastBytes, all_bytes / 4));
  std::int64_t bytes = 0;
  std::ranges::reverse(parts);
  for (auto& part : parts) {
    auto const own = static_cast<std::int64_t>(part.parameter.bytes());
    if (buckets_.empty() || bytes + own > most_bytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    bytes += own;
    buckets_.back().parts.push_back(std::move(part));
  }
  for (auto& bucket : buckets_) {
    for (auto& part : bucket.parts) {
      parts_.emplace(MemoryRange::of(part.parameter.any()), &part);
    }
  }
}

void GradientBuckets::watch_last_part() {
  find_readers(tape_.state());
  tape_.state().watch = this;
  if (rows_.empty() && !tables_.empty() && communicator_.size() > 1) {
    bool const allows_outputs = options_.reproducible == Reproducible::same_rank_count;
    ahead_.lookups =
        gather_ids_ahead(tape_, tables_, allows_outputs, communicator_, row_buffers_, issued_at_);
    ahead_.outputs.resize(tables_.size());
    ahead_.outputs_of_many.resize(ahead_.lookups.many.size());
    held_back_ = ahead_.sends_outputs() && !buckets_.empty() ? 1 : 0;
  }
}

GradientBuckets::~GradientBuckets() {
  tape_.state().watch = nullptr;
}

void GradientBuckets::find_readers(TapeState const& state) {
  std::size_t unknown = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = state.nodes.size(); i-- > 0;) {
    auto const begin = state.nodes[i].first_read;
    auto const end =
        i + 1 < state.nodes.size() ? state.nodes[i + 1].first_read : state.reads.size();
    if (begin == end) {
      unknown = i;
    }
    for (auto read = begin; read != end; ++read) {
      parts_.for_each_overlap(state.reads[read],
                              [&](auto const& entry) { entry.value->reader = i; });
    }
  }
  for (auto& bucket : buckets_) {
    for (auto& part : bucket.parts) {
      part.reader = std::min(part.reader, unknown);
    }
  }
}

bool GradientBuckets::is_complete(Part const& part, std::size_t left) const {
  return part.reader >= left && tape_.has_gradient(part.parameter.any());
}

void GradientBuckets::before_gradient(MemoryRange const& elements) {
  parts_.for_each_overlap(elements, [](auto const& part) {
    if (part.value->reduced) {
      throw std::logic_error(fmt::format(
          "DataParallel: a gradient of parameter '{}' after its all-reduce: an operation must note "
          "all of its inputs that get a gradient, or none",
          part.value->name));
    }
  });
}

bool GradientBuckets::takes_pooled(MemoryRange const& table, Floats const& gradient) {
  auto const& ids_of_tables = ahead_.lookups.ids;
  for (std::size_t i = 0; i < ids_of_tables.size(); ++i) {
    auto const& ids = ids_of_tables[i];
    if (ids && ids->own_bags && MemoryRange::of(tables_[i].weights) == table) {
      ahead_.outputs[i] = {gradient, current_scope(*tape_.state().device).group()};
      return true;
    }
  }
  return false;
}

bool GradientBuckets::wants_pooled(ops::EmbeddingTables<AnyRuntime> const& tables) const {
  return std::ranges::any_of(ahead_.lookups.many, [&](auto const& many) {
    return &many.tables.in_use() == &tables.in_use();
  });
}

bool GradientBuckets::takes_pooled(ops::EmbeddingTables<AnyRuntime> const& tables,
                                   Floats const& gradient) {
  auto const& many = ahead_.lookups.many;
  for (std::size_t i = 0; i < many.size(); ++i) {
    if (&many[i].tables.in_use() == &tables.in_use()) {
      ahead_.outputs_of_many[i] = {gradient, current_scope(*tape_.state().device).group()};
      return true;
    }
  }
  return false;
}

void GradientBuckets::after_operation(std::size_t left) {
  while (issued_ + held_back_ < buckets_.size() &&
         std::ranges::all_of(buckets_[issued_].parts,
                             [&](auto const& part) { return is_complete(part, left); })) {
    issue(buckets_[issued_], true);
    ++issued_;
  }
}

Floats GradientBuckets::in_one(Bucket const& bucket, bool has_samples) const {
  // Each rank exchanges an equal part of a bucket, which begins at a multiple of kAlignment.
  auto const multiple = kAlignment * communicator_.size();
  std::vector<Floats> blocks;
  std::int64_t count = 0;
  auto const fill_up = [&](std::int64_t to) {
    if (to != count) {
      blocks.emplace_back(bucket.parts.front().parameter.device(), Shape{1, to - count});
      fill_any(blocks.back().any(), 0, issued_at_);
      count = to;
    }
  };
  for (auto const& part : bucket.parts) {
    auto const own = part.parameter.count();
    if (has_samples) {
      blocks.push_back(tape_.gradient(part.parameter, issued_at_).reshaped({1, own}));
      count += own;
      fill_up(next_multiple(count, kAlignment));
    } else {
      count += next_multiple(own, kAlignment);
    }
  }
  auto const whole = next_multiple(count, multiple);
  if (!has_samples) {
    count = 0;
  }
  fill_up(whole);
  return ops::detail::concat(blocks, issued_at_).reshaped({count});
}

Floats GradientBuckets::over_all_parts(Floats const& own) const {
  auto const ranks = communicator_.size();
  if (options_.reproducible == Reproducible::same_rank_count) {
    comm::detail::all_reduce(communicator_, own.any(), options_.reduction, issued_at_);
    return options_.reduction == comm::Reduction::mean && parts_of_all_ > ranks
               ? ops::detail::scale(
                     own, static_cast<float>(ranks) / static_cast<float>(parts_of_all_), issued_at_)
               : own;
  }
  PartSums sums;
  if (ranks == 1) {
    sums.add(own, issued_at_);
  } else {
    Floats const of_ranks(own.device(), own.shape());
    comm::detail::all_to_all(communicator_, own.any(), of_ranks.any(), issued_at_);
    auto const count = own.count() / ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      sums.add(of_ranks.rows(rank * count, (rank + 1) * count), issued_at_);
    }
  }
  auto sum = sums.take();
  if (options_.reduction == comm::Reduction::mean) {
    sum = ops::detail::scale(sum, 1 / static_cast<float>(parts_of_all_), issued_at_);
  }
  if (ranks == 1) {
    return sum;
  }
  Floats const all(own.device(), own.shape());
  comm::detail::all_gather(communicator_, sum.any(), all.any(), issued_at_);
  return all;
}

void GradientBuckets::issue(Bucket& bucket, bool has_samples) {
  AnyStreamScope const scope(communicator_.group(), {}, issued_at_);
  NameScope const names("data_parallel");
  bucket.sums.add(in_one(bucket, has_samples), issued_at_);
  auto const all = over_all_parts(bucket.sums.take());
  std::int64_t begin = 0;
  for (auto& part : bucket.parts) {
    auto const end = begin + part.parameter.count();
    part.reduced = all.rows(begin, end).reshaped(part.parameter.shape());
    begin = next_multiple(end, kAlignment);
  }
}

void GradientBuckets::keep_part(bool has_samples) {
  if (has_samples) {
    or_give_up(communicator_, [&] { require_all(); });
  }
  {
    AnyStreamScope const scope(communicator_.group(), {}, issued_at_);
    NameScope const names("data_parallel");
    for (auto& bucket : buckets_) {
      bucket.sums.add(in_one(bucket, has_samples), issued_at_);
    }
  }
  keep_rows(has_samples);
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket.parts) {
      take_off(part.parameter.any());
    }
  }
  for (auto const& table : tables_) {
    take_off(table.weights);
  }
}

void GradientBuckets::keep_rows(bool has_samples) {
  auto& rows = rows_.emplace_back();
  for (auto const& table : tables_) {
    rows.push_back(table.weights.immutable() || !has_samples
                       ? std::nullopt
                       : tape_.lookup_gradient(table.weights, issued_at_));
  }
}

void GradientBuckets::take_off(AnyTensor const& parameter) {
  auto const range = MemoryRange::of(parameter);
  tape_.state().gradients.remove_overlaps(range);
  tape_.state().row_gradients.remove_overlaps(range);
}

void GradientBuckets::require_all() const {
  for (auto const& table : tables_) {
    if (tape_.has_dense_gradient(table.weights)) {
      throw std::logic_error(
          fmt::format("DataParallel: table '{}' has a gradient that does not come from a lookup; "
                      "make it as a dense parameter",
                      table.name));
    }
  }
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket.parts) {
      auto const& tensor = part.parameter.any();
      if (!part.reduced && !tape_.has_gradient(tensor)) {
        throw std::logic_error(
            fmt::format("DataParallel: parameter '{}' of shape {} has no gradient on rank {}: {}",
                        part.name,
                        tensor.shape(),
                        communicator_.rank(),
                        tape_.why_no_gradient(tensor)));
      }
    }
  }
}

void GradientBuckets::issue_buckets(std::size_t but, bool has_samples) {
  for (; issued_ + but < buckets_.size(); ++issued_) {
    issue(buckets_[issued_], has_samples);
  }
}

void GradientBuckets::exchange(bool has_samples) {
  if (has_samples) {
    or_give_up(communicator_, [&] { require_all(); });
  }
  issue_buckets(held_back_, has_samples);
  keep_rows(has_samples);
  auto const factor =
      options_.reduction == comm::Reduction::mean ? 1 / static_cast<float>(parts_of_all_) : 1.0F;
  exchange_rows(tape_.state(),
                tables_,
                rows_,
                std::move(ahead_),
                communicator_,
                factor,
                row_buffers_,
                issued_at_);
  issue_buckets(0, has_samples);
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket.parts) {
      take_off(part.parameter.any());
    }
  }
}

GradientBuckets::Gradients GradientBuckets::take() {
  Gradients all;
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket.parts) {
      all.dense.push_back(*part.reduced);
    }
  }
  for (auto const& table : tables_) {
    auto& rows = all.rows.emplace_back(table.weights.immutable()
                                           ? std::nullopt
                                           : tape_.lookup_gradient(table.weights, issued_at_));
    take_off(table.weights);
    if (rows) {
      // They are added to others anyway: sums them beside what follows.
      if (auto const* const part = std::get_if<ops::detail::TablePart>(&rows->rows)) {
        static_cast<void>(part->all->rows());
      }
    }
  }
  return all;
}

void GradientBuckets::put_on_tape(std::optional<Gradients> const& before) {
  auto& state = tape_.state();
  std::size_t number = 0;
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket.parts) {
      auto const reduced =
          before ? ops::detail::add(std::vector{before->dense[number], *part.reduced}, issued_at_)
                 : *part.reduced;
      state.gradients.emplace(MemoryRange::of(part.parameter.any()),
                              {part.parameter.block(), GradientSum(reduced.any(), issued_at_)});
      ++number;
    }
  }
  for (std::size_t i = 0; before && i < tables_.size(); ++i) {
    auto const& weights = tables_[i].weights;
    std::vector<TapeState::Lookup> lookups;
    for (auto const& rows : {before->rows[i], tape_.lookup_gradient(weights, issued_at_)}) {
      if (rows) {
        lookups.push_back({weights.shape(), *rows});
      }
    }
    if (!lookups.empty()) {
      take_off(weights);
      state.row_gradients.emplace(MemoryRange::of(weights), {weights.block(), std::move(lookups)});
    }
  }
  state.is_reduced = true;
}

}  // namespace msstream::detail
