// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

/// Functions that the teaching programs share, so that each program shows only its subject.
namespace teach {

/// Runs the program and returns 0. If it throws, prints the error to stderr and returns 1.
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

/// Checks a result of the program. Throws std::runtime_error if it is wrong.
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
