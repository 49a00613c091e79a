// Threads that help with work that the caller does, too.
#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace cairn {

// Begins up to `wanted` threads that each call `work` once; joined when the result is destroyed. Fewer, down
// to none, where the user's limit of processes leaves no room (RLIMIT_NPROC, EAGAIN of pthread_create(3)):
// whoever asks for help must be able to do all of it himself. `work` must outlive the threads.
template <class Call>
std::vector<std::jthread> helper_threads(std::size_t wanted, const Call& work) {
    std::vector<std::jthread> helpers;
    helpers.reserve(wanted);
    try {
        while (helpers.size() < wanted) helpers.emplace_back([&work] { work(); });
    } catch (const std::system_error&) {
        return helpers;  // with those that there are
    }
    return helpers;
}

}  // namespace cairn
