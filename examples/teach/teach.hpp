// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

/// Functions that the teaching programs share, so that each program shows only its subject.
namespace teach {

/// Calls `body` and returns 0. If `body` throws or standard output cannot be written, prints the
/// error to stderr and returns 1.
template <class Body>
int run(Body&& body) {
  try {
    body();
    if (!std::cout.flush()) {
      throw std::runtime_error("cannot write to the standard output");
    }
    return 0;
  } catch (std::exception const& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}

/// Throws std::runtime_error, with `what` in the message, if `holds` is false.
inline void expect(bool holds, std::string const& what) {
  if (!holds) {
    throw std::runtime_error("wrong result: " + what);
  }
}

/// Returns the time in milliseconds for which `work()` occupies the host.
template <class Work>
double milliseconds_of(Work&& work) {
  auto const begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace teach
