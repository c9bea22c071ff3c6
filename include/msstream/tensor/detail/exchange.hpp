// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/detail/any_stream.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

namespace msstream::detail {

/// Blocks the host until the uses of the tensor's memory so far are complete. Rethrows failures of
/// the uses. If the host cannot wait, throws an error whose message contains `call`.
void await_uses(AnyTensor const& tensor, char const* call);
/// Makes the next uses of the tensor's memory wait for all work that is on the stream by now,
/// because the work may write the memory.
void note_writes_of(AnyStream const& stream, AnyTensor const& tensor);

}  // namespace msstream::detail
