#include "causality/json_fields.h"

#include <charconv>

namespace cairn::causality {
namespace {

using JsonWhat = JsonField::What;

// Along a line. Whatever isn't simple is left to the library: the answer is the same.
class SimpleJson {
  public:
    explicit SimpleJson(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}
    [[nodiscard]] bool read(std::vector<JsonField>& into) {
        if (!takes('{')) return false;
        if (takes('}')) return at_end();
        do {
            JsonField& field = into.emplace_back();
            if (!text(field.key) || !takes(':') || !value(field)) return false;
        } while (takes(','));
        return takes('}') && at_end();
    }

  private:
    void skip() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n')) ++at_;
    }
    bool takes(char letter) {
        skip();
        if (at_ == end_ || *at_ != letter) return false;
        ++at_;
        return true;
    }
    bool at_end() {
        skip();
        return at_ == end_;
    }
    // Without escapes; what isn't ASCII has to be looked at whether it is UTF-8.
    bool text(std::string_view& into) {
        if (!takes('"')) return false;
        const char* begin = at_;
        while (at_ != end_ && *at_ != '"') {
            const auto letter = static_cast<unsigned char>(*at_);
            if (letter < 0x20 || letter >= 0x80 || letter == '\\') return false;
            ++at_;
        }
        if (at_ == end_) return false;
        into = {begin, static_cast<std::size_t>(at_ - begin)};
        ++at_;
        return true;
    }
    bool value(JsonField& field) {
        skip();
        if (at_ == end_) return false;
        if (*at_ == '"') {
            field.what = JsonWhat::text;
            return text(field.text);
        }
        if (*at_ == 't' || *at_ == 'f') {
            const std::string_view word = *at_ == 't' ? "true" : "false";
            field.what = *at_ == 't' ? JsonWhat::yes : JsonWhat::no;
            if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) return false;
            at_ += word.size();
            return true;
        }
        return number(field);
    }
    bool number(JsonField& field) {
        const bool negative = *at_ == '-';
        const char* digits = negative ? at_ + 1 : at_;
        if (digits == end_ || *digits < '0' || *digits > '9') return false;
        // JSON has no leading zeros, and -0 is a matter of opinion.
        if (*digits == '0' && (negative || (digits + 1 != end_ && digits[1] >= '0' && digits[1] <= '9')))
            return false;
        field.what = negative ? JsonWhat::negative : JsonWhat::whole;
        const auto [behind, error] =
            negative ? std::from_chars(at_, end_, field.negative) : std::from_chars(at_, end_, field.whole);
        if (error != std::errc() || (behind != end_ && (*behind == '.' || *behind == 'e' || *behind == 'E')))
            return false;
        at_ = behind;
        return true;
    }

    const char* at_;
    const char* end_;
};

}  // namespace

const JsonField* find_field(const std::vector<JsonField>& fields, std::string_view key) {
    for (const JsonField& each : fields)
        if (each.key == key) return &each;
    return nullptr;
}

bool JsonFields::read(std::string_view text) {
    return read_simple(text) || read_any(text);
}

bool JsonFields::read_simple(std::string_view text) {
    fields_.clear();
    fields_.reserve(16);
    if (!SimpleJson(text).read(fields_)) return false;
    // Of two members of one name the library takes the last.
    for (std::size_t i = 1; i < fields_.size(); ++i)
        for (std::size_t k = 0; k < i; ++k)
            if (fields_[k].key == fields_[i].key) return false;
    return true;
}

bool JsonFields::read_any(std::string_view text) {
    fields_.clear();
    tree_ = nlohmann::json::parse(text, nullptr, false);
    if (!tree_.is_object()) return false;
    for (const auto& [key, value] : tree_.items()) {
        JsonField& field = fields_.emplace_back();
        field.key = key;
        if (value.is_number_unsigned()) {
            field.what = JsonWhat::whole;
            field.whole = value.get<std::uint64_t>();
        } else if (value.is_number_integer()) {
            field.what = JsonWhat::negative;
            field.negative = value.get<std::int64_t>();
        } else if (value.is_boolean()) {
            field.what = value.get<bool>() ? JsonWhat::yes : JsonWhat::no;
        } else if (value.is_string()) {
            field.what = JsonWhat::text;
            field.text = value.get_ref<const std::string&>();
        } else if (value.is_array()) {
            field.what = JsonWhat::list;
            field.list = &value;
        }
    }
    return true;
}

}  // namespace cairn::causality
