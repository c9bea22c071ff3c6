// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver_calls.hpp"

#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>

#include <cstdio>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace msstream::detail {

void RuntimeThread::call_on_new_thread(Closure function) {
  auto const shared = std::make_shared<Closure>(std::move(function));
  try {
    std::thread([shared] {
      DriverCalls calls(RuntimeLife::driver);
      DriverCalls::Inside const inside(calls);
      (*shared)();
    }).detach();
  } catch (std::system_error const& error) {
    // The calling thread must not wait for streams, so it cannot destroy the object either.
    std::fprintf(stderr,
                 "msstream: the last handle of a pool, group, device or block was destroyed inside "
                 "the work of a stream, and the thread that would wait for its work could not be "
                 "started: %s; its resources are kept\n",
                 error.what());
    HomeProcess::keep(shared);
  }
}

}  // namespace msstream::detail
