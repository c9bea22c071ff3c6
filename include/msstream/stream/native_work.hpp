// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream {

/// Wraps the work of an operation that calls the runtime itself: it is called with the stream's
/// native handle instead of a HostStream or CudaStream.
template <class F>
struct NativeWork {
  F put_on;
};
template <class F>
NativeWork(F) -> NativeWork<F>;

namespace detail {

template <class F, class Ref, class Native>
void call_work(NativeWork<F>& work, Ref, Native native) {
  work.put_on(native);
}
template <class Work, class Ref, class Native>
void call_work(Work& work, Ref ref, Native) {
  work(ref);
}

}  // namespace detail
}  // namespace msstream
