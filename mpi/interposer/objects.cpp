#include "mpi/interposer/objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "mpi/interposer/session.h"

namespace cairn::mpi {
namespace {

struct Run {
    std::string name;
    std::uint64_t count;
    bool operator==(const Run&) const = default;
};
using Runs = std::vector<Run>;
constexpr std::size_t most_runs = 64;

void append_run(Runs& to, const std::string& name, std::uint64_t count) {
    if (count == 0) return;
    if (!to.empty() && to.back().name == name)
        to.back().count += count;
    else
        to.push_back({name, count});
}

// False: it gets too long.
bool append_times(Runs& to, const Runs& what, std::uint64_t times) {
    if (what.size() == 1) {
        append_run(to, what[0].name, what[0].count * times);
        return true;
    }
    for (std::uint64_t i = 0; i < times; ++i) {
        for (const Run& each : what) append_run(to, each.name, each.count);
        if (to.size() > most_runs) return false;
    }
    return true;
}

std::string name_of_type(MPI_Datatype type) {
    char text[MPI_MAX_OBJECT_NAME] = {};
    int size = 0;
    ::PMPI_Type_get_name(type, text, &size);
    return size > 0 ? text : "an unnamed type";
}

bool runs_of(MPI_Datatype type, Runs& to);

// How many of which of its parts a derived type has, in their order.
bool runs_of_parts(int combiner, const std::vector<int>& n, const std::vector<MPI_Datatype>& parts,
                   Runs& to) {
    const auto times = [&](std::uint64_t count) {
        Runs part;
        return runs_of(parts[0], part) && append_times(to, part, count);
    };
    const auto number = [&](std::size_t i) { return static_cast<std::uint64_t>(n[i]); };
    std::uint64_t sum = 1;
    switch (combiner) {
        case MPI_COMBINER_DUP:
        case MPI_COMBINER_RESIZED:
            return times(1);
        case MPI_COMBINER_CONTIGUOUS:
            return times(number(0));
        case MPI_COMBINER_VECTOR:
        case MPI_COMBINER_HVECTOR:
        case MPI_COMBINER_INDEXED_BLOCK:
        case MPI_COMBINER_HINDEXED_BLOCK:
            return times(number(0) * number(1));
        case MPI_COMBINER_INDEXED:
        case MPI_COMBINER_HINDEXED:
            sum = 0;
            for (std::size_t i = 1; i <= number(0); ++i) sum += number(i);
            return times(sum);
        case MPI_COMBINER_SUBARRAY:
            for (std::size_t i = 1; i <= number(0); ++i) sum *= number(number(0) + i);
            return times(sum);
        case MPI_COMBINER_STRUCT:
            for (std::size_t i = 0; i < number(0); ++i) {
                Runs part;
                if (!runs_of(parts[i], part) || !append_times(to, part, number(i + 1))) return false;
            }
            return true;
        default:  // how many a DARRAY has depends on who has it
            return false;
    }
}

bool runs_of(MPI_Datatype type, Runs& to) {
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    if (::PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS) return false;
    if (combiner == MPI_COMBINER_NAMED || types == 0) {
        append_run(to, name_of_type(type), 1);
        return true;
    }
    std::vector<int> n(static_cast<std::size_t>(integers) + 1);
    std::vector<MPI_Aint> a(static_cast<std::size_t>(addresses) + 1);
    std::vector<MPI_Datatype> parts(static_cast<std::size_t>(types));
    if (::PMPI_Type_get_contents(type, integers, addresses, types, n.data(), a.data(), parts.data()) !=
        MPI_SUCCESS)
        return false;
    const bool found = runs_of_parts(combiner, n, parts, to);
    for (MPI_Datatype& part : parts) {
        int kind = MPI_COMBINER_NAMED;
        ::PMPI_Type_get_envelope(part, &integers, &addresses, &types, &kind);
        if (kind != MPI_COMBINER_NAMED && types > 0) ::PMPI_Type_free(&part);
    }
    return found;
}

// What is sent n times is the same as n of it: the shortest part that repeats stands for all.
Runs period_of(Runs runs) {
    for (std::size_t length = 1; length <= runs.size() / 2; ++length) {
        if (runs.size() % length != 0) continue;
        bool repeats = true;
        for (std::size_t i = length; i < runs.size() && repeats; ++i) repeats = runs[i] == runs[i - length];
        if (!repeats) continue;
        runs.resize(length);
        break;
    }
    return runs;
}

std::string text_of_runs(const Runs& all) {
    if (all.size() == 1) return all[0].name;
    std::string text;
    for (const Run& each : period_of(all)) {
        text += (text.empty() ? "{" : " ") + each.name;
        if (each.count > 1) text += fmt::format("*{}", each.count);
    }
    return text.empty() ? text : text + "}";
}

}  // namespace

std::uint32_t TypeNames::Known::bytes_of(int count) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(
        bytes * static_cast<std::uint64_t>(std::max(count, 0)), causality::most_bytes));
}

const TypeNames::Known& TypeNames::of(MPI_Datatype type) {
    static Known nothing;
    // Whose handles may be freed without our knowing.
    if (session->threaded) forget(bits(type));
    const auto [found, is_new] = known_.try_emplace(bits(type));
    if (!is_new) return found->second;
    MPI_Count size = 0;
    Runs runs;
    if (::PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) {
        known_.erase(found);
        return nothing;
    }
    found->second.bytes = static_cast<std::uint64_t>(size);
    if (runs_of(type, runs)) found->second.name = text_of_runs(runs);
    return found->second;
}

void Objects::freed(causality::Leaked what, std::uint64_t key) {
    const auto found = made_.find({what, key});
    if (found == made_.end()) return;
    found->second.pop_back();
    if (found->second.empty()) made_.erase(found);
}

std::vector<causality::Leak> Objects::left() const {
    std::map<std::pair<causality::Leaked, std::uint32_t>, std::uint64_t> counts;
    for (const auto& [key, places] : made_)
        for (const std::uint32_t place : places) ++counts[{key.first, place}];
    std::vector<causality::Leak> all;
    for (const auto& [key, count] : counts)
        all.push_back({.what = key.first, .place = key.second, .count = count});
    return all;
}

}  // namespace cairn::mpi
