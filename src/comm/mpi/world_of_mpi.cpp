// SPDX-License-Identifier: Apache-2.0
// Part of the library msstream_mpi, which is built only with MPI.
#include "comm/environment.hpp"
#include "comm/process_store.hpp"
#include "comm/sockets/sockets.hpp"
#include "comm/timeout.hpp"
#include "comm/world_access.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/comm/mpi.hpp>

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::comm {
namespace detail {
namespace {

/// The text that each process gives to all others: the machine and, of rank 0, where its store is.
struct Card {
  std::array<char, MPI_MAX_PROCESSOR_NAME> machine{};
  std::array<char, 1024> store{};  ///< "! reason" if there is none; otherwise token, port, hosts
};

template <std::size_t kBytes>
void write_text(std::array<char, kBytes>& to, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), kBytes - 1), to.begin());
}

void require_success(int error, char const* call) {
  if (error == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  throw std::runtime_error(fmt::format("{}: {}", call, text.data()));
}

[[nodiscard]] bool is_true(int (*question)(int*)) {
  int answer = 0;
  question(&answer);
  return answer != 0;
}

/// Lets the communicator's errors be returned, as long as it lives. MPI's default ends the program.
class ReturnedErrors {
 public:
  explicit ReturnedErrors(MPI_Comm communicator) : communicator_(communicator) {
    MPI_Comm_get_errhandler(communicator_, &before_);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  }
  ~ReturnedErrors() {
    MPI_Comm_set_errhandler(communicator_, before_);
    MPI_Errhandler_free(&before_);
  }
  ReturnedErrors(ReturnedErrors const&) = delete;
  ReturnedErrors& operator=(ReturnedErrors const&) = delete;

 private:
  MPI_Comm communicator_;
  MPI_Errhandler before_{};
};

/// Throws std::logic_error unless this thread may call MPI.
void require_mpi() {
  if (!is_true(MPI_Initialized)) {
    throw std::logic_error(
        "world_of_mpi: MPI is not initialised; call MPI_Init_thread() before, or use "
        "World::from_environment(), which initialises it");
  }
  if (is_true(MPI_Finalized)) {
    throw std::logic_error(
        "world_of_mpi: MPI is finalised already, and cannot be initialised again; find the other "
        "processes before MPI_Finalize()");
  }
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED && !is_true(MPI_Is_thread_main)) {
    throw std::logic_error(
        "world_of_mpi: MPI's thread level is below MPI_THREAD_SERIALIZED; call this on the thread "
        "that has initialised MPI, or initialise it with that level");
  }
}

/// Returns the addresses of this machine: MASTER_ADDR first if it is set, then IPv4, then IPv6.
/// The loopback devices are left out, unless there is nothing else.
[[nodiscard]] std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  if (auto const chosen = env::value_of("MASTER_ADDR"); !chosen.empty()) {
    found.emplace_back(chosen);
  }
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return found;
  }
  for (int const family : {AF_INET, AF_INET6}) {
    for (auto const* at = first; at != nullptr; at = at->ifa_next) {
      bool const is_usable = at->ifa_addr != nullptr && at->ifa_addr->sa_family == family &&
                             (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
      std::array<char, NI_MAXHOST> text{};
      socklen_t const bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (is_usable &&
          ::getnameinfo(
              at->ifa_addr, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
          !std::string_view(text.data()).starts_with("fe80")) {
        found.emplace_back(text.data());
      }
    }
  }
  ::freeifaddrs(first);
  return found;
}

/// Returns the cards of all ranks. Throws std::runtime_error after the timeout.
[[nodiscard]] std::vector<Card> gathered(
    MPI_Comm communicator, Card const& own, int rank, int size, std::chrono::nanoseconds timeout) {
  struct Memory {
    Card own;
    std::vector<Card> all;
  };
  auto memory =
      std::make_unique<Memory>(Memory{own, std::vector<Card>(static_cast<std::size_t>(size))});
  MPI_Request request = MPI_REQUEST_NULL;
  require_success(MPI_Iallgather(&memory->own,
                                 sizeof(Card),
                                 MPI_BYTE,
                                 memory->all.data(),
                                 sizeof(Card),
                                 MPI_BYTE,
                                 communicator,
                                 &request),
                  "MPI_Iallgather");
  auto const deadline = deadline_after(timeout);
  for (int is_complete = 0;;) {
    require_success(MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_complete != 0) {
      return std::move(memory->all);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      // MPI cannot take back a collective that has begun, and may still write into the memory.
      static_cast<void>(memory.release());
      throw std::runtime_error(
          fmt::format("MPI: rank {} of {} has waited {} for the others to call world_of_mpi() or "
                      "World::from_environment()",
                      rank,
                      size,
                      timeout_text(timeout)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The knowledge of a process about the others after the call of MPI.
struct Found {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::unique_ptr<TcpStoreServer> server = {};  ///< of rank 0
  StoreAddress store = {};
};

/// Tells the processes of a communicator where rank 0 serves them.
[[nodiscard]] Found find(MPI_Comm communicator, std::chrono::nanoseconds timeout) {
  require(communicator != MPI_COMM_NULL, "world_of_mpi: the communicator is MPI_COMM_NULL");
  ReturnedErrors const errors(communicator);
  int is_inter = 0;
  require_success(MPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
  require(is_inter == 0, "world_of_mpi: the communicator is an intercommunicator");
  Found found;
  require_success(MPI_Comm_rank(communicator, &found.rank), "MPI_Comm_rank");
  require_success(MPI_Comm_size(communicator, &found.size), "MPI_Comm_size");
  if (found.size == 1) {
    return found;
  }
  Card own;
  int length = 0;
  require_success(MPI_Get_processor_name(own.machine.data(), &length), "MPI_Get_processor_name");
  if (found.rank == 0) {
    try {
      auto token = random_token();
      auto const port = static_cast<int>(env::integer("MSSTREAM_COMM_PORT", 0, 0, 65535));
      found.server = std::make_unique<TcpStoreServer>(port, std::chrono::seconds(1), token);
      auto text = fmt::format("{} {}", token, found.server->port());
      for (auto const& host : own_addresses()) {
        if (text.size() + host.size() + 1 < own.store.size()) {
          text += " " + host;
        }
      }
      write_text(own.store, text);
    } catch (std::exception const& error) {  // told to all ranks, which wait for rank 0
      write_text(own.store, std::string("! ") + error.what());
    }
  }
  auto const all = gathered(communicator, own, found.rank, found.size, timeout);
  auto const is_here = [&](Card const& card) { return card.machine == own.machine; };
  found.local_rank =
      static_cast<int>(std::count_if(all.begin(), all.begin() + found.rank, is_here));
  if (all.front().store.front() == '!') {
    throw std::runtime_error(fmt::format("rank 0: {}", &all.front().store[2]));
  }
  std::istringstream text(all.front().store.data());
  text >> found.store.token >> found.store.port;
  if (is_here(all.front())) {
    found.store.hosts.emplace_back("127.0.0.1");
  }
  for (std::string host; text >> host;) {
    found.store.hosts.push_back(host);
  }
  return found;
}

/// Connects the process with rank 0.
[[nodiscard]] World connected(Found found,
                              int local_rank,
                              World::Launch launch,
                              std::chrono::nanoseconds timeout) {
  std::shared_ptr<ProcessStore> store;
  if (found.size > 1) {
    try {
      store =
          std::make_shared<ProcessStore>(std::move(found.server), found.store, found.rank, timeout);
    } catch (std::runtime_error const& error) {
      throw std::runtime_error(
          fmt::format("rank {} of {} (MPI): {}", found.rank, found.size, error.what()));
    }
  }
  return WorldAccess::make(found.rank, found.size, local_rank, launch, std::move(store));
}

/// Initialises MPI unless the program has. Finalises it at its end if it has initialised it and no
/// exception is the reason: MPI_Finalize() waits for the other processes, which may be gone, and
/// mpirun ends those of a process that ends without it.
class MpiSession {
 public:
  MpiSession() : is_own_(!is_true(MPI_Initialized)), exceptions_(std::uncaught_exceptions()) {
    if (is_own_) {
      int provided = MPI_THREAD_SINGLE;
      require_success(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
                      "MPI_Init_thread");
    }
  }
  ~MpiSession() {
    if (is_own_ && std::uncaught_exceptions() == exceptions_) {
      MPI_Finalize();
    }
  }
  MpiSession(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;

 private:
  bool is_own_;
  int exceptions_;
};

/// Finds the processes that a launcher has started. Later calls return the world of the first one,
/// since MPI cannot be initialised twice.
[[nodiscard]] World world_of_launcher(World const& expected) {
  static std::mutex mutex;
  static std::optional<World> made;
  std::lock_guard const guard(mutex);
  if (!made) {
    std::chrono::nanoseconds const timeout =
        std::chrono::seconds(env::integer("MSSTREAM_COMM_TIMEOUT_S", 30, 1, 1'000'000));
    Found found;
    {
      MpiSession const session;
      require_mpi();
      found = find(MPI_COMM_WORLD, timeout);
    }
    require(found.rank == expected.rank() && found.size == expected.size(),
            "{}, but MPI says rank {} of {}: expected the mpirun of the MPI with which the program "
            "was built (for srun, --mpi), or MASTER_ADDR and MASTER_PORT",
            to_string(expected),
            found.rank,
            found.size);
    made = connected(std::move(found), expected.local_rank(), expected.launch(), timeout);
  }
  return *made;
}

}  // namespace
}  // namespace detail

World world_of_mpi(MPI_Comm communicator, std::chrono::nanoseconds timeout) {
  detail::require_mpi();
  auto found = detail::find(communicator, timeout);
  int const local_rank = found.local_rank;
  return detail::connected(std::move(found), local_rank, World::Launch::mpirun, timeout);
}

}  // namespace msstream::comm

/// Makes World::from_environment() find processes by MPI. Programs that link msstream::mpi name
/// this variable to their linker, so that it takes this file from the archive.
extern "C" {
extern bool const msstream_finds_by_mpi;
bool const msstream_finds_by_mpi =
    (msstream::comm::detail::find_processes() = msstream::comm::detail::world_of_launcher, true);
}
