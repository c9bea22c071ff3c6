#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the checks that are too slow for every commit; see scripts/nightly.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END'
scripts/nightly.sh [PART…]

Runs the named parts, all of them unless some are named, and prints how long each took. Parts:

  headers  each public header compiled alone
  tidy     clang-tidy over the library, the examples and the public headers
  clang    clang 14 compiles the library without warnings; so also clang16 and clang19, left out if they cannot be installed
  compile-times  how long the examples of users take to compile, against their budgets
  cuda-benchmarks  nvcc and g++ compile the benchmarks, and the kernels to machine code; left out without nvcc
  seeds    the tests that draw random numbers, three times, each time with other numbers
  asan-streams  streams, memory, collectives and captures with the address and undefined-behaviour sanitizers, on
                Checked; only if it is named, as the next ones
  asan-ops      operations and servers with these sanitizers
  asan-files    readers of files, and the corpora of the fuzz targets, with these sanitizers
  asan-step     training steps with these sanitizers
  tsan-streams  streams, memory, collectives and captures with the thread sanitizer
  tsan-step     training steps, files and servers with the thread sanitizer
  asan     every room and every example program with the address and undefined-behaviour sanitizers; half an hour
  tsan     every room and every example program with the thread sanitizer; half an hour
  load     all tests of the host runtime three times, beside four busy processes
  consumer a user's project that has the sources in a subdirectory, built and run
  ways     the release archive, a moved prefix, pkg-config and the Debian packages, with a user's project; the Debian
           packages of a stand-in for the library
  ways-sources  the release archive by FetchContent, and a stand-in for CPM, with a user's project
  ways-shared  shared libraries, with a user's project
  ways-wheel  the wheel, with a user's project; left out without a network
  ways-pip  pip install of the sources, with a user's project; left out without a network
  ways-cuda  the CUDA runtime in a user's build and by Conan: a kernel compiled; left out without nvcc or a network
  ways-wheel-cuda  the wheel with the CUDA runtime, linked into a user's program; left out without nvcc or a network
  ways-deb-cuda  the Debian packages with the CUDA runtime, linked into a user's program; left out without nvcc
  ways-conan  the Conan package, with its test_package; left out without a network
  core     all tests of the host runtime, on one processor
  fuzz     half a minute of each fuzz target
  sklearn  the recorded numbers of scikit-learn, beside those of the newest one from PyPI; left out without a network
  python   checkpoints and event files, beside the newest safetensors and TensorBoard from PyPI; left out without a network
  torch    the programs of docs/coming-from-pytorch.md in Python and C++, and operations beside PyTorch's on the CPU, with
           the newest PyTorch and TorchRec of PyPI; only if it is named, since that is a build for CUDA, 3.5 GB to fetch and
           7 GB of disk, which alone may take ten minutes
  stress   104,000 random programs, and a million operations on memory that is used again, four times as many as by day
  long     tests of training programs in every way of issuing a step, of the order of streams with 12,000 random programs,
           and of lookups of many bags, of which other runs of these tests choose some
  captures 5,200 captures beside a million rounds of loaders; on CUDA where there is a GPU
  collectives  100,000 random programs of collectives on 2 to 8 ranks, which must report no failure; half an hour on two busy cores
  census   the census learnt by several ranks, with tables in parts and in half precision; left out without its file
  parquet  tests of the reader of Parquet files and of train_dlrm on them, with the Arrow of PyPI's pyarrow
  mpi      processes of mpirun, on one host and between two network namespaces, with Debian's Open MPI
  page     the pages of msstream-overlap and of --dashboard in headless Chromium; left out if chromium cannot be
           installed
  gdb      gdb's printers on programs with and without optimisation; left out if gdb cannot be installed
  site     the documentation as a site: spelling, links, docstrings, and its pages in headless Chromium; left out without
           a network
  hta      times of msstream-overlap, beside those of the newest HolisticTraceAnalysis; left out without a network
  cuda12   the host's code with the headers of CUDA 12.4, of NCCL and of the newest NVTX, of PyPI; left out without a
           network
  cuda12-last  the host's code with the headers of CUDA 12.9 and of the newest NCCL; left out without a network
  cuda12-kernels  the syntax of the kernels with the headers of CUDA 12.4 and 12.9, by clang 19; left out without a network
  cuda-newest  host code, and CUDA code of programs and tests, with the newest toolkit and NCCL of PyPI; left out without a
           network
  sm75     the kernels for GPUs of compute capability 7.5, with the newest nvcc of PyPI; so also sm80, sm86, sm89, sm90,
           sm100 and sm120; left out without a network
  gpu      all tests of both runtimes, a program a room after the other, and a report of msstream-doctor; left out
           without a GPU

  scripts/nightly.sh load core
END
}

headers() { "$root/scripts/check_headers.sh" --alone; }

tidy() { "$root/scripts/check_tidy.sh"; }

# Checks the library with a version of clang.
by_clang() {
  if [ "$1" != 14 ] && ! command -v "clang++-$1" >/dev/null && ! install_missing "clang-$1"; then
    say "left out: $advice does not work"
    return
  fi
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" clang-14 --
  "$root/scripts/check_clang.py" "clang++-$1"
}

clang() { by_clang 14; }

clang16() { by_clang 16; }

clang19() { by_clang 19; }

# One measurement is enough unless it is above a budget.
compile-times() { "$root/scripts/compile_benchmark.py" --runs 1 || "$root/scripts/compile_benchmark.py"; }

cuda-benchmarks() {
  if ! command -v nvcc >/dev/null; then
    say "left out: it needs nvcc"
    return
  fi
  install_missing libbenchmark-dev || die "install what is missing, then run this again: $advice"
  preset=cuda-compile
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- \
    -D MSSTREAM_BUILD_BENCHMARKS=ON -D CMAKE_CUDA_ARCHITECTURES=90 -B "$root/build/cuda-benchmarks"
  quietly cmake --build "$root/build/cuda-benchmarks" --parallel "$(nproc)" --target benchmarks
}

seeds() {
  local room rooms failed=()
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  mapfile -t rooms < <(cd "$root/tests" && grep -rlE 'Random |random[.]|random_device|test_seed' ./*/ --include='*_test.cpp' |
    cut -d/ -f2 | grep -vE '^(fake_cuda|data_parquet)$' | sort -u)
  build "${rooms[@]/#/test_}"
  for room in "${rooms[@]}"; do
    # Tests of programs take long, and draw little.
    env -u MSSTREAM_TEST_SEED timeout 300 "$root/build/host/tests/test_$room" --gtest_repeat=3 --gtest_brief=1 \
      --gtest_filter='-Train*:*/Train*:Serve*:*/Serve*:*Stress*:RandomPrograms*:*/RandomPrograms*' || failed+=("$room")
  done
  [ "${#failed[@]}" = 0 ] || die "failed with other numbers: ${failed[*]}"
}

# Runs the tests of some rooms as the preset has them: everyday PRESET ROOM….
everyday() {
  local rooms targets
  preset=$1
  shift
  rooms=$(printf '|%s' "$@")
  targets=("${@/#/test_}")
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- -D MSSTREAM_BUILD_TESTS=ON
  build "${targets[@]/#test_fuzz/fuzzers}"
  ctest --preset "$preset" --parallel "$(nproc)" --label-regex "^(${rooms:1})\$"
}

asan-streams() { everyday asan base order trace runtime stream memory tensor comm capture; }
asan-ops() { everyday asan kernels ops faulty serve; }
asan-files() { everyday asan data checkpoint overlap fuzz; }
asan-step() { everyday asan step; }
tsan-streams() { everyday tsan runtime stream memory comm capture; }
tsan-step() { everyday tsan kernels step data checkpoint serve; }

everything() {
  preset=$1
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- \
    -D MSSTREAM_SANITIZE_PROGRAMS=ON -D MSSTREAM_BUILD_TOOLS=ON -B "$root/build/$1-everything"
  quietly cmake --build "$root/build/$1-everything" --parallel "$(nproc)"
}

# Sanitizers read their options from the environment. The CMake presets set the options only for
# everyday builds, so asan and tsan set them here.
asan() {
  everything asan
  ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-14 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_init_order=1:check_initialization_order=1 \
    ctest --test-dir "$root/build/asan-everything" --output-on-failure --parallel "$(nproc)"
}

tsan() {
  everything tsan
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:external_symbolizer_path=/usr/bin/llvm-symbolizer-14 \
    ctest --test-dir "$root/build/tsan-everything" --output-on-failure --parallel "$(nproc)"
}

load() {
  local busy=() _
  preset=host
  MSSTREAM_BUILD_PRESET=host "$root/scripts/test.sh" --show-only >/dev/null
  for _ in 1 2 3 4; do
    (while :; do :; done) &
    busy+=($!)
  done
  # shellcheck disable=SC2064  # expands the process ids now
  trap "kill ${busy[*]} 2>/dev/null || true" EXIT
  for _ in 1 2 3; do
    ctest --preset host --parallel "$(nproc)"
  done
}

consumer() {
  local folder=$root/build/consumer
  rm -rf "$folder"
  install_missing "${build_packages[@]}"
  quietly cmake -G Ninja -S "$root/tests/consumer_subdirectory" -B "$folder" -D MSSTREAM_SOURCE="$root"
  quietly cmake --build "$folder" --parallel "$(nproc)" --target consumer
  "$folder/consumer"
}

ways() {
  or_left_out python3 -B "$root/tests/ways/deb/deb_test.py"
  "$root/scripts/check_ways.sh" archive prefix deb recipes
}

ways-sources() { "$root/scripts/check_ways.sh" sources; }

ways-shared() { "$root/scripts/check_ways.sh" shared; }

# Makes a virtual environment of Python with packages of PyPI: environment FOLDER PACKAGE…. If that
# does not work, says that the part is left out, and why.
environment() {
  local folder=$1
  shift
  if ! make_environment "$folder"; then
    say "left out: $advice does not work"
  elif ! quietly "$folder/bin/python" -m pip install --quiet "$@"; then
    say "left out: $* cannot be installed from PyPI"
  else
    return 0
  fi
  return 1
}

ways_by_pypi() {
  # A new environment, so that pip has to ask PyPI.
  rm -rf "$root/build/pypi"
  environment "$root/build/pypi" build || return 0
  "$root/scripts/check_ways.sh" "$1"
}

ways-wheel() { ways_by_pypi wheel; }

ways-pip() { ways_by_pypi pip; }

ways-cuda() { ways_by_pypi cuda; }

ways-wheel-cuda() { ways_by_pypi wheel-cuda; }

ways-deb-cuda() { "$root/scripts/check_ways.sh" deb-cuda; }

ways-conan() { ways_by_pypi conan; }

core() {
  MSSTREAM_BUILD_PRESET=host "$root/scripts/test.sh" --show-only >/dev/null
  taskset -c 0 ctest --preset host --parallel 2
}

fuzz() { "$root/scripts/fuzz.sh" 30; }

sklearn() {
  local folder=$root/build/sklearn
  environment "$folder" scikit-learn || return 0
  "$folder/bin/python" -B "$root/tests/metrics/sklearn_values.py" --check
}

python() {
  local folder=$root/build/python
  environment "$folder" numpy safetensors tensorboard || return 0
  choose_preset
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build test_checkpoint test_report
  local room
  for room in checkpoint report; do
    MSSTREAM_TEST_PYTHON=$folder/bin/python "$root/build/$preset/tests/test_$room" --gtest_filter='Python*'
  done
}

torch() {
  local folder=$root/build/torch
  environment "$folder" torch safetensors torcheval torchmetrics || return 0
  # TorchRec needs fbgemm-gpu, which has wheels for few versions of Python.
  quietly "$folder/bin/python" -m pip install --quiet torchrec || say "left out: TorchRec cannot be installed from PyPI"
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- -D MSSTREAM_BUILD_TESTS=ON
  build teach_from_pytorch test_reference
  "$folder/bin/python" -B "$root/examples/teach/from_pytorch.py"
  "$root/build/host/examples/teach/teach_from_pytorch"
  "$folder/bin/python" -B "$root/tests/reference/torch_results.py" --device cpu "$folder/results.safetensors"
  MSSTREAM_TORCH_RESULTS=$folder/results.safetensors "$root/build/host/tests/test_reference" --gtest_brief=1
}

stress() {
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build test_trust test_memory
  MSSTREAM_TEST_ALL=1 "$root/build/host/tests/test_trust" --gtest_filter='*/RandomPrograms.*' --gtest_brief=1
  MSSTREAM_TEST_ALL=1 "$root/build/host/tests/test_memory" --gtest_filter='TaggedStress.*:ArenaTest.*' --gtest_brief=1
}

long() {
  local program
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build test_train_wdl test_train_ple test_train_branches test_train_dlrm test_train_rerank test_stream test_kernels
  for program in train_wdl train_ple train_branches train_dlrm train_rerank; do
    MSSTREAM_TEST_ALL=1 "$root/build/host/tests/test_$program" --gtest_brief=1 \
      --gtest_filter='*Bits*:*bits*:*half_batches*:*fp8*:*finds_nothing*-*census*'
  done
  MSSTREAM_TEST_ALL=1 "$root/build/host/tests/test_stream" --gtest_filter='*ExactOrder*' --gtest_brief=1
  MSSTREAM_TEST_ALL=1 "$root/build/host/tests/test_kernels" --gtest_filter='EmbeddingTest*many_bags*' --gtest_brief=1
}

captures() {
  choose_preset
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build test_step
  MSSTREAM_TEST_CAPTURES=5200 "$root/build/$preset/tests/test_step" --gtest_filter='CapturesBesideTest/*'
}

collectives() {
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build test_comm
  MSSTREAM_TEST_COLLECTIVE_PROGRAMS=100000 "$root/build/host/tests/test_comm" \
    --gtest_filter='RandomCollectives/host.give_every_rank_what_it_must_get' --gtest_brief=1
}

census() {
  local program
  preset=host
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  [ -f "${MSSTREAM_TEST_DATA:-$root/data}/census_income_kdd.csv.gz" ] || {
    say "left out: no census_income_kdd.csv.gz in the folder MSSTREAM_TEST_DATA"
    return
  }
  build test_train_wdl test_train_ple
  for program in train_wdl train_ple; do
    MSSTREAM_TEST_ALL=1 "$root/build/host/tests/test_$program" --gtest_filter='*census*' --gtest_brief=1
  done
}

parquet() {
  local arrow
  preset=host
  arrow=$("$root/scripts/find_arrow.py" --install "$root/build/pyarrow") || {
    say "left out: PyPI's pyarrow cannot be installed"
    return
  }
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- \
    -D MSSTREAM_ARROW="$arrow" -B "$root/build/parquet"
  quietly cmake --build "$root/build/parquet" --parallel "$(nproc)" \
    --target test_data_parquet test_train_dlrm_parquet
  "$root/build/parquet/tests/test_data_parquet" --gtest_brief=1
  "$root/build/parquet/tests/test_train_dlrm_parquet" --gtest_brief=1
}

mpi() {
  preset=host
  install_missing libopenmpi-dev openmpi-bin || {
    say "left out: $advice does not work"
    return
  }
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- \
    -D MSSTREAM_MPI=/usr -B "$root/build/mpi"
  quietly cmake --build "$root/build/mpi" --parallel "$(nproc)" --target test_comm_mpi
  "$root/build/mpi/tests/test_comm_mpi" --gtest_brief=1
  "$root/scripts/two_hosts.sh" "$root/build/mpi/examples/teach/teach_data_parallel"
}

# Runs a test. Its status 77 means that it is left out, for a reason that it prints.
or_left_out() {
  local status=0
  "$@" || status=$?
  [ "$status" = 77 ] || return "$status"
  say "left out: ${*: -1}"
}

page() {
  local pages=$root/build/pages file
  if ! command -v chromium >/dev/null && ! install_missing chromium; then
    say "left out: $advice does not work"
    return
  fi
  install_missing libmicrohttpd-dev || say "left out: the page of --dashboard, unless libmicrohttpd is found; $advice"
  choose_preset
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build test_overlap msstream-overlap test_dashboard train_ple train_rerank train_dlrm
  or_left_out python3 -B "$root/tests/dashboard/page_test.py" "$root/build/$preset/tests/test_dashboard"
  or_left_out python3 -B "$root/tests/dashboard/program_test.py" \
    train_ple="$root/build/$preset/examples/train_ple/train_ple" \
    train_rerank="$root/build/$preset/examples/train_rerank/train_rerank" \
    train_dlrm="$root/build/$preset/examples/train_dlrm/train_dlrm"
  mkdir -p "$pages"
  MSSTREAM_TEST_PAGES=$pages "$root/build/$preset/tests/test_overlap" --gtest_filter='OverlapPage.*' --gtest_brief=1
  # Recordings of other programs, where there are any.
  for file in "${MSSTREAM_TEST_DATA:-$root/data}"/traces/kineto/*.json.gz; do
    [ -f "$file" ] || continue
    "$root/build/$preset/tools/overlap/msstream-overlap" "$file" --quiet --html "$pages/$(basename "$file").html" || true
  done
  python3 -B "$root/tests/overlap/show/page_test.py" "$pages"/*.html
}

gdb() {
  preset=host
  install_missing gdb || {
    say "left out: $advice does not work"
    return
  }
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build gdb_objects_O0 gdb_objects_O2
  or_left_out python3 -B "$root/tests/gdb/printers_test.py" "$root"/build/host/tests/gdb_objects_O[02]
}

site() {
  if ! "$root/scripts/site.sh" --install; then
    say "left out: the tools of docs/site/requirements.txt cannot be installed from PyPI"
    return
  fi
  command -v chromium >/dev/null || install_missing chromium || say "left out: the pages in Chromium; $advice does not work"
  "$root/scripts/site.sh" --check
}

# HTA 0.5.0 stops at short recordings with pandas 3.
hta() {
  local folder=$root/build/hta traces=("${MSSTREAM_TEST_DATA:-$root/data}"/traces/kineto/*.json.gz) parts
  environment "$folder" HolisticTraceAnalysis 'pandas<3' || return 0
  choose_preset
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
  build msstream-overlap overlap_fake_program overlap_fake_cupti
  # A recording of the recorder's own, from a CUPTI without a GPU.
  parts=$root/build/$preset/tests/overlap/record
  "$root/build/$preset/tools/overlap/msstream-overlap" run --force --output "$folder/recording.json.gz" \
    --cupti "$parts/liboverlap_fake_cupti.so" -- "$parts/overlap_fake_program" exit 1000 || [ $? = 7 ]
  [ -f "${traces[0]}" ] || traces=()
  "$folder/bin/python" -B "$root/tests/overlap/show/hta_figures.py" \
    --tool "$root/build/$preset/tools/overlap/msstream-overlap" "$folder/recording.json.gz" "${traces[@]}"
}

cuda-newest() { "$root/scripts/check_toolkits.sh" newest; }

cuda12() { "$root/scripts/check_toolkits.sh" oldest; }

cuda12-last() { "$root/scripts/check_toolkits.sh" last12; }

cuda12-kernels() { "$root/scripts/check_toolkits.sh" kernels12 12.4 12.9; }

gpu() {
  choose_preset
  if [ "$preset" != cuda ]; then
    say "left out: it needs a GPU"
    return
  fi
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- \
    -D MSSTREAM_TEST_OPTIMISATION=-O0
  build all
  local program broken=()
  for program in "$root"/build/cuda/tests/test_*; do
    [ -x "$program" ] || continue
    "$program" --gtest_brief=1 || broken+=("${program##*/}")
  done
  python3 -B "$root/tests/doctor/doctor_on_gpu.py" "$root/build/cuda/tools/doctor/msstream-doctor" ||
    broken+=(msstream-doctor)
  [ "${#broken[@]}" = 0 ] || die "broken: ${broken[*]}"
}

parts=(headers tidy clang clang16 clang19 compile-times cuda-benchmarks seeds asan-streams asan-ops asan-files asan-step tsan-streams
  tsan-step asan tsan load consumer ways ways-sources ways-shared ways-wheel ways-pip ways-cuda ways-wheel-cuda
  ways-deb-cuda ways-conan core fuzz sklearn python torch stress long captures collectives census parquet mpi page gdb site hta cuda12 cuda12-last cuda12-kernels cuda-newest
  sm75 sm80 sm86 sm89 sm90 sm100 sm120 gpu)
chosen=()
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit ;;
    *)
      [[ " ${parts[*]} " == *" $argument "* ]] || die "no part $argument, only: ${parts[*]}"
      chosen+=("$argument")
      ;;
  esac
done
if [ "${#chosen[@]}" = 0 ]; then
  # The parts asan and tsan have what these have.
  for part in "${parts[@]}"; do
    [[ $part =~ ^([at]san-|torch$) ]] || chosen+=("$part")
  done
fi

cd "$root"
failed=()
for part in "${chosen[@]}"; do
  started=$SECONDS
  say "$part"
  set +e
  (
    set -e
    case $part in
      sm*) "$root/scripts/check_toolkits.sh" kernels "${part#sm}" ;;
      *) "$part" ;;
    esac
  )
  status=$?
  set -e
  [ "$status" = 0 ] || failed+=("$part")
  say "$part took $((SECONDS - started)) s"
done
[ "${#failed[@]}" = 0 ] || die "failed: ${failed[*]}"
