// Draws series of figures as SVG.
#include <algorithm>
#include <array>
#include <cmath>

#include "causality/simulate.h"

namespace cairn::causality {
namespace {

constexpr double width = 760, height = 440, left = 80, right = 150, top = 50, bottom = 60;

std::string escaped(const std::string& text) {
    std::string out;
    for (const char letter : text) {
        if (letter == '&')
            out += "&amp;";
        else if (letter == '<')
            out += "&lt;";
        else
            out += letter;
    }
    return out;
}

// A round number of about a fifth of the span.
double step_of(double span) {
    const double power = std::pow(10.0, std::floor(std::log10(std::max(span, 1e-9) / 5)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (power * factor * 5 >= span) return power * factor;
    return power * 10;
}

}  // namespace

std::string plot_svg(const std::string& title, const std::string& x_name, const std::vector<double>& x,
                     const std::string& y_name, const std::vector<Series>& series) {
    constexpr std::array<const char*, 7> colours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                    "#ff7f0e", "#17becf", "#8c564b"};
    double least = x.front(), most = x.front(), highest = 0;
    for (const double each : x) {
        least = std::min(least, each);
        most = std::max(most, each);
    }
    for (const Series& each : series)
        for (const double value : each.values) highest = std::max(highest, value);
    if (most == least) most = least + 1;
    const double step = step_of(highest == 0 ? 1 : highest);
    const double ceiling = std::max(step * std::ceil(highest / step), step);
    // Parameters that span more than a factor of 20 are powers of something.
    const bool logarithmic = least > 0 && most / least > 20;
    const auto at_x = [&](double value) {
        const double part =
            logarithmic ? std::log(value / least) / std::log(most / least) : (value - least) / (most - least);
        return left + part * (width - left - right);
    };
    const auto at_y = [&](double value) {
        return height - bottom - value / ceiling * (height - top - bottom);
    };

    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"24\" font-size=\"15\">{3}</text>\n",
        width, height, left, escaped(title));
    for (double value = 0; value <= ceiling * 1.001; value += step)
        out += fmt::format(
            "<line x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
            "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
            left, width - right, at_y(value), left - 8, at_y(value) + 4, value);
    for (const double each : x)
        out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", at_x(each),
                           height - bottom + 18, each);
    out += fmt::format(
        "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"black\"/>\n"
        "<text x=\"{3}\" y=\"{4}\" text-anchor=\"middle\">{5}</text>\n"
        "<text x=\"18\" y=\"{6}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {6})\">{7}</text>\n",
        left, height - bottom, width - right, (left + width - right) / 2, height - 16, escaped(x_name),
        height / 2, escaped(y_name));
    for (std::size_t i = 0; i < series.size(); ++i) {
        const char* colour = colours[i % colours.size()];
        std::string points;
        for (std::size_t k = 0; k < x.size(); ++k) {
            const double px = at_x(x[k]), py = at_y(series[i].values[k]);
            points += fmt::format("{:.1f},{:.1f} ", px, py);
            out += fmt::format(
                "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {:g}</title></circle>\n",
                px, py, colour, escaped(series[i].name), series[i].values[k]);
        }
        const double line = top + 20 * static_cast<double>(i);
        out += fmt::format(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n"
            "<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n",
            points, colour, width - right + 12, line, colour, escaped(series[i].name));
    }
    return out + "</svg>\n";
}

}  // namespace cairn::causality
