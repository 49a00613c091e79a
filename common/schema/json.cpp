#include "common/schema/json.h"

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "common/json_text.h"
#include "common/schema/extra.h"
#include "common/schema/fields.h"

namespace cairn::schema {
namespace {

using nlohmann::json;

enum class Style { text, disk };

template <class T>
concept Listed = requires(T& value) {
    fields(value, [](std::string_view, auto&) {});
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// --- to JSON

json write(const Bytes& bytes, Style) {
    return json::binary(bytes);
}

json write(const PageRun& run, Style) {
    return json::array({run.address, run.length, run.offset, run.hash});
}

// A process of many GiB can have millions of runs: as one binary value they cost 32 bytes each and one copy.
json write(const std::vector<PageRun>& runs, Style style) {
    if (style == Style::disk) {
        static_assert(sizeof(PageRun) == 32 && std::is_trivially_copyable_v<PageRun>);
        Bytes packed(runs.size() * sizeof(PageRun));
        if (!runs.empty()) std::memcpy(packed.data(), runs.data(), packed.size());
        return json::binary(std::move(packed));
    }
    json list = json::array();
    for (const PageRun& run : runs) list.push_back(write(run, style));
    return list;
}

json write(const std::pair<std::uint64_t, std::uint64_t>& pair, Style) {
    return json::array({pair.first, pair.second});
}

template <class T>
json write(const T& value, Style style) {
    if constexpr (std::is_enum_v<T>) {
        return json(std::string(name_of(value)));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
        return json(value);
    } else if constexpr (std::is_array_v<T> || IsVector<T>::value) {
        json list = json::array();
        for (const auto& each : value) list.push_back(write(each, style));
        return list;
    } else {
        static_assert(Listed<const T>);
        json object = json::object();
        fields(value, [&](std::string_view name, const auto& member) {
            object.emplace(std::string(name), write(member, style));
        });
        return object;
    }
}

// --- from JSON

// Thrown and caught within this file: what is wrong, and where ("threads[3].tid").
struct Wrong {
    std::string where, what;
};

[[noreturn]] void wrong(std::string what) {
    throw Wrong{"", std::move(what)};
}

template <class F>
void inside(const std::string& where, F&& read_it) {
    try {
        read_it();
    } catch (Wrong& problem) {
        const bool dot = !problem.where.empty() && problem.where.front() != '[';
        problem.where = where + (dot ? "." : "") + problem.where;
        throw;
    }
}

void read(const json& from, Bytes& to) {
    if (!from.is_binary()) wrong(fmt::format("is {}, not binary", from.type_name()));
    to = from.get_binary();
}

template <class T>
requires std::is_integral_v<T>
void read(const json& from, T& to) {
    if constexpr (std::is_same_v<T, bool>) {
        if (!from.is_boolean()) wrong(fmt::format("is {}, not a boolean", from.type_name()));
        to = from.get<bool>();
    } else {
        if (!from.is_number_integer()) wrong(fmt::format("is {}, not an integer", from.type_name()));
        const bool fits = from.is_number_unsigned() ? std::in_range<T>(from.get<std::uint64_t>())
                                                    : std::in_range<T>(from.get<std::int64_t>());
        if (!fits) wrong(fmt::format("is {}, out of range", from.dump()));
        to = from.get<T>();
    }
}

void read(const json& from, std::string& to) {
    if (!from.is_string()) wrong(fmt::format("is {}, not a string", from.type_name()));
    to = from.get_ref<const std::string&>();
}

template <class E>
requires std::is_enum_v<E>
void read(const json& from, E& to) {
    std::string name;
    read(from, name);
    for (const auto& [each, known] : EnumNames<E>::table)
        if (known == name) {
            to = each;
            return;
        }
    wrong(fmt::format("is '{}', which this cairn doesn't know", name));
}

void need_array(const json& from, std::size_t at_least = 0) {
    if (!from.is_array()) wrong(fmt::format("is {}, not an array", from.type_name()));
    if (from.size() < at_least) wrong(fmt::format("has {} elements, not {}", from.size(), at_least));
}

void read(const json& from, std::pair<std::uint64_t, std::uint64_t>& to) {
    need_array(from, 2);
    read(from[0], to.first);
    read(from[1], to.second);
}

void read(const json& from, PageRun& to) {
    need_array(from, 4);
    read(from[0], to.address);
    read(from[1], to.length);
    read(from[2], to.offset);
    read(from[3], to.hash);
}

template <Listed T>
void read(const json& from, T& to);

template <class T, std::size_t N>
void read(const json& from, T (&to)[N]) {
    need_array(from, N);
    for (std::size_t i = 0; i < N; ++i) inside(fmt::format("[{}]", i), [&] { read(from[i], to[i]); });
}

template <class T>
void read(const json& from, std::vector<T>& to) {
    if constexpr (std::is_same_v<T, PageRun>) {
        if (from.is_binary()) {
            const Bytes& packed = from.get_binary();
            if (packed.size() % sizeof(PageRun) != 0)
                wrong(fmt::format("has {} bytes, not a multiple of 32", packed.size()));
            to.resize(packed.size() / sizeof(PageRun));
            if (!to.empty()) std::memcpy(to.data(), packed.data(), packed.size());
            return;
        }
    }
    need_array(from);
    to.clear();
    to.reserve(from.size());
    for (const json& each : from)
        inside(fmt::format("[{}]", to.size()), [&] { read(each, to.emplace_back()); });
}

template <Listed T>
void read(const json& from, T& to) {
    if (!from.is_object()) wrong(fmt::format("is {}, not a map", from.type_name()));
    fields(to, [&](std::string_view name, auto& member) {
        const auto found = from.find(name);
        if (found != from.end()) inside(std::string(name), [&] { read(*found, member); });
    });
}

template <class T>
Result<T> convert(const json& value, std::string_view what) {
    T result;
    try {
        read(value, result);
    } catch (const Wrong& problem) {
        return fail_code(ExitCode::damaged, "{}{}{} {}", what, problem.where.empty() ? "" : ": ",
                         problem.where, problem.what);
    }
    return result;
}

// --- MessagePack

// Builds a value from a stream of tokens, and no deeper than any schema goes: nlohmann's parser recurses, and
// a few MB of nested arrays would overflow its stack. Lengths that the input states are not believed: nothing
// is reserved for them.
class Builder : public nlohmann::json_sax<json> {
  public:
    static constexpr std::size_t deepest = 16;
    json root;
    std::string problem = "is not MessagePack";

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t value) override { return add(value); }
    bool number_unsigned(number_unsigned_t value) override { return add(value); }
    bool number_float(number_float_t value, const string_t&) override { return add(value); }
    bool string(string_t& value) override { return add(std::move(value)); }
    bool binary(binary_t& value) override { return add(std::move(value)); }
    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& value) override {
        key_ = std::move(value);
        return true;
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        problem = fmt::format("is not MessagePack: wrong at byte {}", position);
        return false;
    }

  private:
    json* place(json value) {
        if (open_.empty()) return &(root = std::move(value));
        json& top = *open_.back();
        if (top.is_array()) return &top.emplace_back(std::move(value));
        return &(top[key_] = std::move(value));
    }
    bool add(json value) {
        place(std::move(value));
        return true;
    }
    bool open(json value) {
        if (open_.size() == deepest) {
            problem = "is nested too deeply";
            return false;
        }
        open_.push_back(place(std::move(value)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    std::vector<json*> open_;
    std::string key_;
};

Result<json> parse(std::span<const std::uint8_t> data, std::string_view what) {
    Builder builder;
    const bool good =
        json::sax_parse(data.begin(), data.end(), &builder, json::input_format_t::msgpack, true);
    if (!good) return fail_code(ExitCode::damaged, "{} {}", what, builder.problem);
    return std::move(builder.root);
}

template <class T>
Result<T> decode(std::span<const std::uint8_t> data, std::string_view what) {
    auto root = TRY(parse(data, what));
    return convert<T>(root, what);
}

// Text JSON has no binary type.
void binary_to_hex(json& value) {
    if (value.is_binary()) {
        std::string digits;
        for (const std::uint8_t byte : value.get_binary()) digits += fmt::format("{:02x}", byte);
        value = std::move(digits);
    } else if (value.is_structured()) {
        for (json& each : value) binary_to_hex(each);
    }
}

}  // namespace

json to_json(const Process& process) {
    return write(process, Style::text);
}
json to_json(const Thread& thread) {
    return write(thread, Style::text);
}
json to_json(const Area& area) {
    return write(area, Style::text);
}
json to_json(const Object& object) {
    return write(object, Style::text);
}
json to_json(const Objects& objects) {
    return write(objects, Style::text);
}
json to_json(const Manifest& manifest) {
    return write(manifest, Style::text);
}

Result<Process> process_from_json(const json& value) {
    return convert<Process>(value, "process");
}
Result<Objects> objects_from_json(const json& value) {
    return convert<Objects>(value, "objects");
}
Result<Manifest> manifest_from_json(const json& value) {
    return convert<Manifest>(value, "manifest");
}

std::string dump(const json& value, int indent) {
    json copy = value;
    binary_to_hex(copy);
    return json_text(copy, indent);
}

Bytes encode(const Process& process) {
    return json::to_msgpack(write(process, Style::disk));
}
Bytes encode(const Objects& objects) {
    return json::to_msgpack(write(objects, Style::disk));
}

Result<json> unpack(const Bytes& bytes) {
    constexpr std::string_view what = "what an object says of its kind";
    auto extra = parse(bytes, what);
    if (extra && !extra->is_object())
        return fail_code(ExitCode::damaged, "{} can't be decoded: it is {}", what, extra->type_name());
    return extra;
}

Result<Process> decode_process(std::span<const std::uint8_t> data) {
    return decode<Process>(data, "process");
}
Result<Objects> decode_objects(std::span<const std::uint8_t> data) {
    return decode<Objects>(data, "objects");
}

}  // namespace cairn::schema
