#include "mpi/debug/web/payload.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace cairn::mpi::debug::web {
namespace {

template <typename T>
std::string values(const std::string& bytes, std::uint64_t elements) {
    const std::size_t here = std::min<std::uint64_t>(bytes.size() / sizeof(T), elements);
    std::string text;
    for (std::size_t i = 0; i < here; ++i) {
        T value{};
        std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
        text += fmt::format("{}{}", i == 0 ? "" : " ", value);
    }
    return text + (here < elements ? " ..." : "");
}

std::string letters(const std::string& bytes, std::uint64_t elements) {
    std::string text = "\"";
    for (const char each : bytes) text += each >= ' ' && each <= '~' ? each : '.';
    return text + (bytes.size() < elements ? "..." : "") + "\"";
}

std::string hexadecimal(const std::string& bytes, std::uint64_t all) {
    std::string text;
    for (const char each : bytes)
        text += fmt::format("{}{:02x}", text.empty() ? "" : " ", static_cast<unsigned char>(each));
    return text + (bytes.size() < all ? " ..." : "");
}

using Values = std::string (*)(const std::string&, std::uint64_t);
struct Known {
    const char* name;
    Values values;
};
constexpr std::array known = {
    Known{"MPI_INT", values<int>},
    Known{"MPI_INTEGER", values<int>},
    Known{"MPI_LOGICAL", values<int>},
    Known{"MPI_INT32_T", values<std::int32_t>},
    Known{"MPI_UNSIGNED", values<unsigned>},
    Known{"MPI_UINT32_T", values<std::uint32_t>},
    Known{"MPI_SHORT", values<short>},
    Known{"MPI_INT16_T", values<std::int16_t>},
    Known{"MPI_UNSIGNED_SHORT", values<unsigned short>},
    Known{"MPI_UINT16_T", values<std::uint16_t>},
    Known{"MPI_LONG", values<long>},
    Known{"MPI_LONG_LONG", values<long long>},
    Known{"MPI_LONG_LONG_INT", values<long long>},
    Known{"MPI_INT64_T", values<std::int64_t>},
    Known{"MPI_INTEGER8", values<std::int64_t>},
    Known{"MPI_AINT", values<std::int64_t>},
    Known{"MPI_COUNT", values<std::int64_t>},
    Known{"MPI_OFFSET", values<std::int64_t>},
    Known{"MPI_UNSIGNED_LONG", values<unsigned long>},
    Known{"MPI_UNSIGNED_LONG_LONG", values<unsigned long long>},
    Known{"MPI_UINT64_T", values<std::uint64_t>},
    Known{"MPI_FLOAT", values<float>},
    Known{"MPI_REAL", values<float>},
    Known{"MPI_REAL4", values<float>},
    Known{"MPI_DOUBLE", values<double>},
    Known{"MPI_DOUBLE_PRECISION", values<double>},
    Known{"MPI_REAL8", values<double>},
    Known{"MPI_CHAR", letters},
    Known{"MPI_CHARACTER", letters},
};

}  // namespace

std::string text_of(const History::Given& given) {
    const auto* const found =
        std::ranges::find_if(known, [&](const Known& each) { return given.type == each.name; });
    if (found != known.end())
        return fmt::format("{} {}: {}", given.elements, given.type,
                           found->values(given.head, given.elements));
    return fmt::format("{} bytes{}: {}", given.bytes,
                       given.type.empty()         ? " of a type of the program's"
                       : given.type == "MPI_BYTE" ? ""
                                                  : " of " + given.type,
                       hexadecimal(given.head, given.bytes));
}

}  // namespace cairn::mpi::debug::web
