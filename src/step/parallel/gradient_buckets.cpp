// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/gradient_buckets.hpp"

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

namespace msstream::detail {
namespace {

/// Kernels read gradients that begin at multiples of this many elements four at a time.
constexpr std::int64_t kAlignment = 4;

}  // namespace

GradientBuckets::GradientBuckets(AnyTape& tape,
                                 Parameters<AnyRuntime> const& parameters,
                                 comm::detail::AnyCommunicator const& communicator,
                                 DataParallelOptions const& options,
                                 std::source_location issued_at)
    : tape_(tape),
      communicator_(communicator),
      reduction_(options.reduction),
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
  std::int64_t bytes = 0;
  std::ranges::reverse(parts);
  for (auto& part : parts) {
    auto const own = static_cast<std::int64_t>(part.parameter.bytes());
    if (buckets_.empty() || bytes + own > options.bucket_bytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    bytes += own;
    buckets_.back().push_back(std::move(part));
  }
  for (auto& bucket : buckets_) {
    for (auto& part : bucket) {
      parts_.emplace(MemoryRange::of(part.parameter.any()), &part);
    }
  }
  find_readers(tape.state());
  tape.state().watch = this;
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
    for (auto& part : bucket) {
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

void GradientBuckets::after_operation(std::size_t left) {
  while (issued_ < buckets_.size() && std::ranges::all_of(buckets_[issued_], [&](auto const& part) {
           return is_complete(part, left);
         })) {
    issue(buckets_[issued_]);
    ++issued_;
  }
}

void GradientBuckets::issue(Bucket& bucket) {
  AnyStreamScope const scope(communicator_.group(), {}, issued_at_);
  NameScope const names("data_parallel");
  std::vector<Floats> blocks;
  std::int64_t count = 0;
  for (auto const& part : bucket) {
    auto const own = part.parameter.count();
    blocks.push_back(tape_.gradient(part.parameter, issued_at_).reshaped({1, own}));
    count += own;
    if (auto const rest = count % kAlignment; rest != 0) {
      Floats const gap(part.parameter.device(), {1, kAlignment - rest});
      fill_any(gap.any(), 0, issued_at_);
      blocks.push_back(gap);
      count += kAlignment - rest;
    }
  }
  auto const all = ops::detail::concat(blocks, issued_at_).reshaped({count});
  comm::detail::all_reduce(communicator_, all.any(), reduction_, issued_at_);
  std::int64_t begin = 0;
  for (auto& part : bucket) {
    auto const end = begin + part.parameter.count();
    part.reduced = all.rows(begin, end).reshaped(part.parameter.shape());
    begin = (end + kAlignment - 1) / kAlignment * kAlignment;
  }
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
    for (auto const& part : bucket) {
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

void GradientBuckets::finish() {
  require_all();
  after_operation(0);
  exchange_rows(tape_, tables_, communicator_, reduction_, issued_at_);
  replace();
}

void GradientBuckets::replace() {
  auto& state = tape_.state();
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket) {
      auto const range = MemoryRange::of(part.parameter.any());
      state.gradients.remove_overlaps(range);
      state.row_gradients.remove_overlaps(range);
    }
  }
  for (auto const& bucket : buckets_) {
    for (auto const& part : bucket) {
      state.gradients.emplace(MemoryRange::of(part.parameter.any()),
                              {part.parameter.block(), GradientSum(*part.reduced, issued_at_)});
    }
  }
  state.is_reduced = true;
}

}  // namespace msstream::detail
