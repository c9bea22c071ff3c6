// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/padded_rows.hpp"

#include <msstream/tensor/detail/any_copy.hpp>

namespace msstream::detail {

AnyTensor PaddedRows::of(std::optional<AnyTensor> const& own,
                         std::source_location issued_at) const {
  auto const rows = shape[0];
  auto const existing = own ? own->shape()[0] : 0;
  if (own && existing >= rows) {
    return own->rows(0, rows);
  }
  AnyTensor padded(device, dtype, shape);
  fill_any(padded.rows(existing, rows), fill, issued_at);
  if (existing > 0) {
    copy_on_device(padded.rows(0, existing), *own, issued_at);
  }
  return padded;
}

}  // namespace msstream::detail
