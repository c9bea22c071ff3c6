// SPDX-License-Identifier: Apache-2.0
// A program that behaves like one that uses CUDA: it loads the library of CUDA_INJECTION64_PATH, as
// the driver does, and makes the fake CUPTI record launches. Its first argument says how it ends.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void (*fake_work)(char const*) = nullptr;
void (*fake_launch)(char const*) = nullptr;
int (*fake_flushes)() = nullptr;

void initialise_cuda() {
  void* const library = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  auto* const initialise = library == nullptr
                               ? nullptr
                               : reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialise == nullptr) {
    std::fprintf(stderr, "no injection: %s\n", dlerror());
    std::exit(99);
  }
  initialise();
  void* const cupti = dlopen(std::getenv("MSSTREAM_OVERLAP_CUPTI"), RTLD_NOW);
  fake_work = reinterpret_cast<void (*)(char const*)>(dlsym(cupti, "fake_work"));
  fake_launch = reinterpret_cast<void (*)(char const*)>(dlsym(cupti, "fake_launch"));
  fake_flushes = reinterpret_cast<int (*)()>(dlsym(cupti, "fake_flushes"));
}

/// Returns once a function has counted so many more calls. The recorder wakes four times a second.
void wait_for_calls(int (*counted)(), int more) {
  for (int const until = counted() + more; counted() < until;) {
    usleep(1000);
  }
}

void work(int launches) {
  for (int launch = 0; launch < launches; ++launch) {
    fake_work("_Z10add_valuesPfi");
  }
}

[[noreturn]] void wait_for_signal() {
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    pause();
  }
}

volatile sig_atomic_t interrupted = 0;

}  // namespace

int main(int count, char** arguments) {
  std::string const how = count > 1 ? arguments[1] : "exit";
  int const launches = count > 2 ? std::atoi(arguments[2]) : 100;
  if (how == "without-cuda") {
    return 3;
  }
  if (how == "fork-first") {
    // Children that initialise CUDA themselves, and end as Python's multiprocessing does.
    for (int child = 0; child < 2; ++child) {
      if (fork() == 0) {
        initialise_cuda();
        work(launches);
        _exit(0);
      }
    }
    while (wait(nullptr) > 0) {
    }
    return 0;
  }
  if (how == "child-ends-later") {
    // The child works on after the program has ended, which it notices by the end of a pipe.
    int begun[2];
    int ended[2];
    if (pipe(begun) != 0 || pipe(ended) != 0) {
      return 98;
    }
    if (fork() == 0) {
      initialise_cuda();
      work(launches);
      close(ended[1]);
      close(begun[1]);
      char byte = 0;
      while (read(ended[0], &byte, 1) > 0) {
      }
      work(launches);
      std::exit(0);
    }
    close(begun[1]);
    char byte = 0;
    while (read(begun[0], &byte, 1) > 0) {
    }
    return 4;
  }
  initialise_cuda();
  if (how == "launches") {
    for (int launch = 0; launch < launches; ++launch) {
      fake_launch("_Z10add_valuesPfi");
    }
    return 0;
  }
  work(launches);
  if (how == "driver") {
    void* const cupti = dlopen(std::getenv("MSSTREAM_OVERLAP_CUPTI"), RTLD_NOW);
    auto* const launch =
        reinterpret_cast<void (*)(char const*)>(dlsym(cupti, "fake_driver_launch"));
    launch("_Z9by_driverv");
    return 13;
  }
  if (how == "report") {
    void* const library = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    auto* const start = reinterpret_cast<char const* (*)(int, char const*)>(
        dlsym(library, "msstream_overlap_start"));
    char const* const reason = start(1, "/tmp");
    std::fprintf(stderr, "%s\n", reason == nullptr ? "recorded twice" : reason);
    return 12;
  }
  if (how == "exit") {
    return 7;
  }
  if (how == "_exit") {
    _exit(8);
  }
  if (how == "fork-later") {
    if (fork() == 0) {
      return 5;  // runs the handlers of exit() in the child
    }
    int status = 0;
    wait(&status);
    work(launches);
    return WEXITSTATUS(status);
  }
  if (how == "segv") {
    *static_cast<int volatile*>(nullptr) = 1;
  }
  if (how == "abort") {
    std::abort();
  }
  if (how == "kill") {
    wait_for_calls(fake_flushes, 3);  // what was flushed before the last one has been written
    work(1);
    raise(SIGKILL);
  }
  if (how == "flushes") {
    // Whether CUPTI is flushed while so many devices of a driver are in use.
    void* const driver = dlopen(arguments[3], RTLD_NOW | RTLD_GLOBAL);
    reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_devices"))(std::atoi(arguments[4]));
    auto* const looks = reinterpret_cast<int (*)()>(dlsym(driver, "fake_looks"));
    wait_for_calls(looks, 1);
    int const before = fake_flushes();
    wait_for_calls(looks, 3);
    return fake_flushes() == before ? 14 : 15;
  }
  if (how == "own-handler") {
    signal(SIGTERM, [](int) { interrupted = 1; });
    std::puts("ready");
    std::fflush(stdout);
    while (interrupted == 0) {
      usleep(1000);
    }
    return 11;
  }
  if (how == "like-python") {
    // Restores the signal and raises it, after its own handler ran.
    signal(SIGINT, [](int) { interrupted = 1; });
    std::puts("ready");
    std::fflush(stdout);
    while (interrupted == 0) {
      usleep(1000);
    }
    signal(SIGINT, SIG_DFL);
    kill(getpid(), SIGINT);
    pause();
  }
  wait_for_signal();
}
