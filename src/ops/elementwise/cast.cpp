// SPDX-License-Identifier: Apache-2.0
#include "mixed/convert.hpp"
#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/tensor/issue.hpp>

#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

std::vector<AnyTensor> cast(std::vector<AnyTensor> const& inputs,
                            DType to,
                            std::source_location issued_at) {
  if (inputs.empty() || inputs.front().dtype() == to) {
    return inputs;
  }
  auto const from = inputs.front().dtype();
  std::vector<AnyTensor> outputs;
  std::vector<kernels::Conversion> conversions;
  auto read = reads(inputs.front());
  AnyTensor const first(inputs.front().device(), to, inputs.front().shape());
  auto written = writes(first);
  for (auto const& input : inputs) {
    require(input.dtype() == from,
            "cast: tensors of {} and {}; expected one type",
            name_of(from),
            name_of(input.dtype()));
    bool const is_first = outputs.empty();
    outputs.push_back(is_first ? first : AnyTensor(input.device(), to, input.shape()));
    if (!is_first) {
      read.add(input);
      written.add(outputs.back());
    }
    conversions.push_back({input.data(), outputs.back().data(), input.count()});
  }
  issue(
      "cast",
      read,
      written,
      [conversions = std::move(conversions), from, to](auto stream) {
        kernels::convert(stream, conversions, from, to);
      },
      {},
      issued_at);
  return outputs;
}

AnyTensor cast(AnyTensor const& input, DType to, std::source_location issued_at) {
  return cast(std::vector{input}, to, issued_at).front();
}

AnyTensor add(std::vector<AnyTensor> const& terms, std::source_location issued_at) {
  require(!terms.empty(), "add: no terms");
  auto const dtype = terms.front().dtype();
  if (dtype == DType::float32) {
    std::vector<Floats> floats;
    for (auto const& term : terms) {
      floats.emplace_back(term);
    }
    return add(floats, issued_at).any();
  }
  auto read = reads(terms.front());
  std::vector<void const*> inputs;
  for (auto const& term : terms) {
    require(term.shape() == terms.front().shape() && term.dtype() == dtype,
            "add: {} of {} and {} of {}",
            terms.front().shape(),
            name_of(dtype),
            term.shape(),
            name_of(term.dtype()));
    if (!inputs.empty()) {
      read.add(term);
    }
    inputs.push_back(term.data());
  }
  AnyTensor const total(terms.front().device(), dtype, terms.front().shape());
  issue(
      "add",
      read,
      writes(total),
      [inputs = std::move(inputs), output = total.data(), count = total.count(), dtype](
          auto stream) { kernels::add_halves(stream, inputs, output, count, dtype); },
      {},
      issued_at);
  return total;
}

}  // namespace msstream::ops::detail
