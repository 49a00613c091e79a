// Random schema structs: every field is filled, so that a round trip which loses one is noticed.
#pragma once

#include <random>

#include "resources/schema/fields.h"

namespace cairn::test {

class RandomStruct {
  public:
    explicit RandomStruct(std::uint64_t seed) : engine_(seed) {}

    template <class T>
    T make() {
        T value{};
        fill(value);
        return value;
    }
    std::uint64_t number() { return engine_(); }

  private:
    std::size_t few() { return engine_() % 4; }

    template <class Space>
    void fill(Id<Space>& value) {
        std::int32_t number = 0;
        fill(number);
        value = Id<Space>(number);
    }
    void fill(bool& value) { value = engine_() % 2 == 0; }
    template <class T>
    requires std::is_integral_v<T>
    void fill(T& value) {
        // The extremes as often as what lies between.
        switch (engine_() % 4) {
            case 0:
                value = std::numeric_limits<T>::min();
                break;
            case 1:
                value = std::numeric_limits<T>::max();
                break;
            default:
                value = static_cast<T>(engine_());
        }
    }
    template <class T>
    requires std::is_enum_v<T>
    void fill(T& value) {
        const auto& table = schema::EnumNames<T>::table;
        value = table[engine_() % table.size()].first;
    }
    void fill(std::string& value) {
        value.resize(few() * 5);
        for (char& letter : value) letter = static_cast<char>(engine_());  // not UTF-8: names are bytes
    }
    void fill(ProgramFd& value) {
        std::int32_t number = 0;
        fill(number);
        value = ProgramFd(number);
    }
    void fill(ProgramAddress& value) {
        std::uint64_t number = 0;
        fill(number);
        value = ProgramAddress(number);
    }
    void fill(std::pair<ProgramAddress, std::uint64_t>& value) {
        value = {ProgramAddress(engine_()), engine_()};
    }
    template <class Place>
    void fill(schema::RunOf<Place>& run) {
        run = {Place(engine_()), engine_(), engine_(), engine_()};
    }
    template <class T, std::size_t N>
    void fill(T (&value)[N]) {
        for (T& each : value) fill(each);
    }
    template <class T>
    void fill(std::vector<T>& value) {
        value.resize(few());
        for (T& each : value) fill(each);
    }
    template <class T>
    requires requires(T& value) {
        schema::fields(value, [](std::string_view, auto&, auto...) {});
    }
    void fill(T& value) {
        schema::fields(value, [&](std::string_view, auto& member, auto... range) {
            fill(member);
            (force(member, range), ...);
        });
    }
    template <class T>
    void fill(std::optional<T>& value) {
        value.reset();
        if (engine_() % 2 == 0) fill(value.emplace());
    }
    template <class... Each>
    void fill(std::variant<Each...>& value) {
        std::size_t left = engine_() % sizeof...(Each);
        (void)((left-- == 0 ? (fill(value.template emplace<Each>()), true) : false) || ...);
    }
    template <class T>
    void force(T& value, schema::Within range) {
        if (std::cmp_less(value, range.least) || std::cmp_greater(value, range.most))
            value = static_cast<T>(static_cast<std::uint64_t>(range.least) +
                                   engine_() % (static_cast<std::uint64_t>(range.most) -
                                                static_cast<std::uint64_t>(range.least) + 1));
    }

    template <class T>
    requires requires(const T& value) { value.number(); }
    void force(T& value, schema::Within range) {
        std::int32_t number = value.number();
        force(number, range);
        value = T(number);
    }

    std::mt19937_64 engine_;
};

// Member by member.
template <class T>
bool same(const T& a, const T& b);

template <class T>
bool same_member(const T& a, const T& b) {
    return same(a, b);
}
template <class T>
bool same_member(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same_member(a[i], b[i])) return false;
    return true;
}

template <class T>
bool same_member(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a || same_member(*a, *b));
}
template <class... Each>
bool same_member(const std::variant<Each...>& a, const std::variant<Each...>& b) {
    return a.index() == b.index() &&
           std::visit([&]<class T>(const T& one) { return same(one, std::get<T>(b)); }, a);
}

template <class T>
bool same(const T& a, const T& b) {
    if constexpr (requires { schema::fields(a, [](std::string_view, const auto&, auto...) {}); }) {
        bool all = true;
        std::vector<const void*> members;
        schema::fields(b, [&](std::string_view, const auto& member, auto...) { members.push_back(&member); });
        std::size_t i = 0;
        schema::fields(a, [&](std::string_view, const auto& member, auto...) {
            all = all && same_member(member, *static_cast<decltype(&member)>(members[i++]));
        });
        return all;
    } else if constexpr (std::is_same_v<T, schema::PageRun> || std::is_same_v<T, schema::ObjectRun>) {
        return a.at == b.at && a.length == b.length && a.offset == b.offset && a.hash == b.hash;
    } else if constexpr (std::is_array_v<T>) {
        return std::equal(std::begin(a), std::end(a), std::begin(b));
    } else {
        return a == b;
    }
}

}  // namespace cairn::test
