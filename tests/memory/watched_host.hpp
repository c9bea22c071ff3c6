// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <cstddef>
#include <string_view>

namespace msstream::testing {

struct WatchedHostOptions {
  Gate* gate;        ///< opens when the host starts to wait for an event
  Journal* journal;  ///< gets "free" when device memory goes back to the machine
};

/// The host runtime for tests of who must block the host: what should come after the wait, but
/// comes without one, comes before all that the gate holds.
class WatchedHost : public Host {
 public:
  using Options = WatchedHostOptions;
  static constexpr std::string_view name = "watched host";

  explicit WatchedHost(Options options) : options_(options) {}

  void synchronize(native_event event) {
    options_.gate->open();
    Host::synchronize(event);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    options_.journal->add("free");
    Host::free_device(memory, bytes);
  }

 private:
  Options options_;
};
static_assert(Runtime<WatchedHost>);

}  // namespace msstream::testing
