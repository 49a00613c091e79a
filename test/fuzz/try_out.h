// A fuzzer's function on its seeds and on some thousand random changes of them, for a test of a moment.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace cairn::fuzz {

using Input = std::vector<std::uint8_t>;

inline std::vector<Input> seeds_in(const std::string& folder) {
    std::vector<Input> seeds;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::ifstream file(entry.path(), std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return seeds;
}

// A few changes of the kinds that find most: bits, numbers at their limits, pieces left out, doubled or of
// another seed.
inline Input changed(const std::vector<Input>& seeds, std::mt19937_64& random) {
    const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
    Input input = seeds[below(seeds.size())];
    for (std::size_t n = 1 + below(4); n > 0; --n) {
        const std::size_t at = below(input.size()), some = 1 + below(std::min<std::size_t>(input.size(), 64));
        const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end = begin + static_cast<std::ptrdiff_t>(std::min(some, input.size() - at));
        switch (input.empty() ? 4 : below(6)) {
            case 0:
                *begin = static_cast<std::uint8_t>(*begin ^ (1U << below(8)));
                break;
            case 1:
                std::fill(begin, end, below(2) == 0 ? 0xff : 0);
                break;
            case 2:
                input.erase(begin, end);
                break;
            case 3: {
                const Input piece(begin, end);
                input.insert(begin, piece.begin(), piece.end());
                break;
            }
            case 4: {
                const Input& other = seeds[below(seeds.size())];
                const std::size_t from = below(other.size());
                input.insert(input.begin() + static_cast<std::ptrdiff_t>(at),
                             other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
                break;
            }
            default:
                *begin = static_cast<std::uint8_t>(random());
        }
        if (input.size() > 20'000) input.resize(20'000);
    }
    return input;
}

// Twice as many changes: from the same start each time, and from a new one, which is printed; CAIRN_SEED
// repeats it.
inline void try_out(int (*function)(const std::uint8_t*, std::size_t), const std::vector<Input>& seeds,
                    int changes) {
    for (const Input& seed : seeds) function(seed.data(), seed.size());
    const char* given = std::getenv("CAIRN_SEED");
    const auto fresh =
        given != nullptr
            ? std::strtoull(given, nullptr, 0)
            : static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    for (const std::uint64_t start : {std::uint64_t{1}, std::uint64_t{fresh}}) {
        std::cerr << "CAIRN_SEED=" << start << std::endl;  // an abort says nothing
        std::mt19937_64 random(start);
        for (int i = 0; i < changes; ++i) {
            const Input input = changed(seeds, random);
            function(input.data(), input.size());
        }
    }
}

}  // namespace cairn::fuzz
