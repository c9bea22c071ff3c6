// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

/// What the teaching programs share, so that each shows its one subject and nothing else.
namespace teach {

/// Runs the program: 0 when it ends well, else its error on stderr and 1.
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

/// A program checks what it computed.
inline void expect(bool holds, std::string const& what) {
  if (!holds) {
    throw std::runtime_error("wrong result: " + what);
  }
}

/// How long `work()` keeps the host, in milliseconds.
template <class Work>
double milliseconds_of(Work&& work) {
  auto const begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace teach
