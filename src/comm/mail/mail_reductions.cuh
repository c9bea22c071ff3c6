// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/mailboxes.hpp"

#include <cuda_runtime_api.h>

namespace msstream::comm::detail {

/// Puts one rank's part of all_reduce or reduce_scatter on a stream; see put_by_mail(). Each rank
/// sends its elements to all that combine them.
void reduce_by_mail(cudaStream_t stream, Mailboxes const& boxes, Part const& part, unsigned blocks);

void load_mail_reductions();

}  // namespace msstream::comm::detail
