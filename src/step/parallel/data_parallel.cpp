// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/gradient_buckets.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

using comm::Reduction;

namespace {

/// Returns a line with the options, and one for each parameter.
[[nodiscard]] std::string list_of(Parameters<AnyRuntime> const& parameters,
                                  DataParallelOptions const& options) {
  using Kind = Parameters<AnyRuntime>::Kind;
  auto text = fmt::format(
      "the {} of buckets of {} bytes", name_of(options.reduction), options.bucket_bytes);
  if (options.reproducible == Reproducible::any_rank_count) {
    text += fmt::format(", {} of {} parts", name_of(options.reproducible), options.parts);
  }
  for (auto const& entry : parameters.entries()) {
    text += fmt::format("\n{}{} '{}', {} {}",
                        entry.is_frozen ? "the frozen " : "the ",
                        entry.kind == Kind::dense   ? "dense parameter"
                        : entry.kind == Kind::table ? "table"
                                                    : "buffer",
                        entry.name,
                        entry.dtype,
                        entry.shape);
  }
  return text;
}

[[nodiscard]] std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Throws std::invalid_argument, with the first difference, unless all ranks have equal lists.
void require_equal(std::vector<std::string> const& lists) {
  auto const other =
      std::ranges::find_if(lists, [&](auto const& list) { return list != lists[0]; });
  if (other == lists.end()) {
    return;
  }
  auto of_first = lines_of(lists[0]);
  auto of_other = lines_of(*other);
  auto const lines = std::max(of_first.size(), of_other.size());
  of_first.resize(lines, "no more parameters");
  of_other.resize(lines, "no more parameters");
  auto const [first, second] = std::ranges::mismatch(of_first, of_other);
  throw_invalid_argument(
      fmt::format("DataParallel: rank 0 has {}, and rank {} has {}; expected equal options, and "
                  "equal parameters in the same order, on all ranks",
                  *first,
                  other - lists.begin(),
                  *second));
}

}  // namespace

AnyDataParallel::AnyDataParallel(Parameters<AnyRuntime> const& parameters,
                                 comm::detail::AnyCommunicator const& communicator,
                                 DataParallelOptions const& options,
                                 std::source_location issued_at)
    : parameters_(parameters), communicator_(communicator), options_(options) {
  require(options.bucket_bytes >= 1,
          "DataParallel: buckets of {} bytes; expected at least 1",
          options.bucket_bytes);
  require(options.reduction == Reduction::mean || options.reduction == Reduction::sum,
          "DataParallel: the {} of gradients; expected mean or sum",
          name_of(options.reduction));
  if (options.reproducible == Reproducible::any_rank_count) {
    require(options.parts >= 1 && std::has_single_bit(static_cast<unsigned>(options.parts)) &&
                options.parts % communicator.size() == 0,
            "DataParallel: batches of {} parts on {} ranks; expected a power of two that the "
            "number of ranks divides",
            options.parts,
            communicator.size());
  }
  require_equal(communicator.exchange(list_of(parameters, options)));
  parameters.for_each([&](std::string const&, AnyTensor const& tensor, auto) {
    if (!tensor.immutable()) {
      comm::detail::broadcast(communicator, tensor, 0, issued_at);
    }
  });
}

int AnyDataParallel::parts() const noexcept {
  return options_.reproducible == Reproducible::any_rank_count ? options_.parts
                                                               : communicator_.size();
}

void AnyDataParallel::backward(AnyTape& tape,
                               Floats const& loss,
                               std::source_location issued_at) const {
  if (options_.reproducible == Reproducible::any_rank_count) {
    throw std::logic_error(
        "DataParallel: backward() with any_rank_count; call backward_in_parts(), which cuts a "
        "batch "
        "into as many parts for any number of ranks");
  }
  GradientBuckets buckets(tape, parameters_, communicator_, options_, issued_at);
  buckets.watch_last_part();
  tape.backward(loss, issued_at);
  buckets.finish(true);
}

Floats AnyDataParallel::backward_in_parts(
    AnyTape& tape,
    std::function<std::optional<Floats>(int part)> const& part_loss,
    std::source_location issued_at) const {
  if (tape.backward_count() != 0) {
    throw std::logic_error(
        "DataParallel: backward_in_parts() after another backward of this tape; call clear()");
  }
  GradientBuckets buckets(tape, parameters_, communicator_, options_, issued_at);
  std::vector<Floats> losses;
  for (int part = first_part(); part < first_part() + own_parts(); ++part) {
    auto const loss = part_loss(part);
    bool const is_last = part + 1 == first_part() + own_parts();
    if (is_last) {
      buckets.watch_last_part();
    }
    if (loss) {
      tape.backward(*loss, issued_at);
      losses.push_back(loss->reshaped({1, 1}));
    } else {
      losses.emplace_back(tape.state().device, Shape{1, 1});
      fill_any(losses.back().any(), 0, issued_at);
    }
    if (is_last) {
      buckets.finish(loss.has_value());
    } else {
      buckets.keep_part(loss.has_value());
    }
  }
  // To an optimizer, the parts are one backward.
  tape.state().backward_count = 1;
  tape.state().stepped.clear();
  return over_all_parts(losses, issued_at);
}

Floats AnyDataParallel::over_all_parts(std::vector<Floats> const& losses,
                                       std::source_location issued_at) const {
  AnyStreamScope const scope(communicator_.group(), {}, issued_at);
  NameScope const names("data_parallel");
  auto const own = ops::detail::concat(losses, issued_at).reshaped({own_parts()});
  Floats const all(own.device(), {parts()});
  comm::detail::all_gather(communicator_, own.any(), all.any(), issued_at);
  std::vector<Floats> of_parts;
  for (int part = 0; part < parts(); ++part) {
    of_parts.push_back(all.rows(part, part + 1).reshaped({}));
  }
  auto const sum = parts() == 1 ? of_parts.front() : ops::detail::add(of_parts, issued_at);
  return options_.reduction == Reduction::mean && parts() > 1
             ? ops::detail::scale(sum, 1 / static_cast<float>(parts()), issued_at)
             : sum;
}

Floats AnyDataParallel::weighted(AnyTape& tape,
                                 Floats const& loss,
                                 Floats const& samples,
                                 std::source_location issued_at) const {
  require(samples.count() == 1 && loss.count() == 1,
          "DataParallel: a loss of shape {} weighted by numbers of samples of shape {}; expected "
          "scalars",
          loss.shape(),
          samples.shape());
  auto const own = samples.reshaped(loss.shape());
  Floats const mean(own.device(), own.shape());
  {
    AnyStreamScope const scope(communicator_.group(), {}, issued_at);
    copy_on_device(mean.any(), own.any(), issued_at);
  }
  comm::detail::all_reduce(communicator_, mean.any(), Reduction::mean, issued_at);
  auto const weight = ops::detail::divide(own, mean, issued_at);
  tape.without_gradient(weight.any());
  return ops::detail::multiply(tape, loss, weight, issued_at);
}

}  // namespace msstream::detail
