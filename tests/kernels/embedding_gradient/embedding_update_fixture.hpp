// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/update.hpp"
#include "kernels/embedding/embedding_fixture.hpp"
#include "kernels/embedding_gradient/gradient_case.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"

namespace msstream::ops::kernels::testing {

/// A table and its optimizer state in the memory of a machine.
struct UploadedTable {
  DType dtype;
  Buffer<std::byte> weights;
  Buffer<float> state0;
  Buffer<float> state1;
};

/// A fixture for updates of tables by the gradients of lookups.
template <class Stream>
class UpdateTest : public GradientTest<Stream> {
 protected:
  GroupNumbers numbers = {};  ///< those of all updates

  Bytes random_table(DType dtype, std::int64_t elements) {
    return packed(this->random.reals(elements), dtype);
  }

  template <class Id>
  void update(OptimizerRule const& rule,
              StepState const* step,
              UploadedCase<Id> const& uploaded,
              UploadedTable const& table) {
    auto gradient = uploaded.args();
    auto const memory =
        this->workspace(embedding_update_workspace_bytes(this->stream(), rule.kind, gradient));
    gradient.workspace = memory.data();
    EmbeddingUpdateArgs const args{.gradient = gradient,
                                   .unique_ids = uploaded.unique_ids.data(),
                                   .table = table.weights.data(),
                                   .table_dtype = table.dtype,
                                   .state0 = table.state0.data(),
                                   .state1 = table.state1.data(),
                                   .numbers = numbers};
    this->replay([&](Stream stream) { embedding_update(stream, rule, step, args); });
  }
};

}  // namespace msstream::ops::kernels::testing
