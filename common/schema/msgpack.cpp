#include "common/schema/msgpack.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace cairn::schema {
namespace {

using nlohmann::json;

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
        // We write keys in their order, so each is the last one.
        auto& members = top.get_ref<json::object_t&>();
        const auto member = members.emplace_hint(members.end(), std::move(key_), json());
        return &(member->second = std::move(value));
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

}  // namespace

Result<json> parse(std::span<const std::uint8_t> data, std::string_view what) {
    Builder builder;
    const bool good =
        json::sax_parse(data.begin(), data.end(), &builder, json::input_format_t::msgpack, true);
    if (!good) return fail_code(ExitCode::damaged, "{} {}", what, builder.problem);
    return std::move(builder.root);
}

}  // namespace cairn::schema
