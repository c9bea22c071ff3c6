// SPDX-License-Identifier: Apache-2.0
#include "cli/failure_text.hpp"

#include <new>
#include <stdexcept>
#include <system_error>

namespace msstream::cli {

std::string failure_text(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::bad_alloc const&) {
    return "this machine has not enough free memory, or ulimit -v bounds it: use less data, fewer "
           "table rows or smaller batches";
  } catch (std::length_error const& error) {
    return std::string(
               "something is asked to be larger than any memory: use less data, fewer "
               "table rows or smaller batches (") +
           error.what() + ")";
  } catch (std::system_error const& error) {
    bool const is_bare = error.what() == error.code().message();
    return is_bare && error.code() == std::errc::resource_unavailable_try_again
               ? std::string(
                     "cannot start a thread (see the limits of processes, ulimit -u, and "
                     "of memory, ulimit -v): ") +
                     error.what()
               : error.what();
  } catch (std::exception const& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace msstream::cli
