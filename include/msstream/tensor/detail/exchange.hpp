// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/detail/any_stream.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

namespace msstream::detail {

/// Blocks the host until the uses of the tensor's memory so far are complete. Rethrows their
/// failures. The error names `call` if the host cannot wait.
void await_uses(AnyTensor const& tensor, char const* call);
/// Makes the next uses of the tensor's memory wait for all work that is on the stream by now, which
/// may write it.
void note_writes_of(AnyStream const& stream, AnyTensor const& tensor);

}  // namespace msstream::detail
