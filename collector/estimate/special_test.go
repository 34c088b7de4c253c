package estimate

import "testing"

// TestSpecialFunctions: values of scipy 1.17.1:
//
//	from scipy.stats import t, beta, binom, norm
//	t.ppf(.975, [1, 2, 3.5, 79, 1000]); t.ppf(.8, 79)
//	beta.ppf(.025, 80, 1); beta.ppf(.975, 3.5, 157.25); beta.cdf(.3, 2.5, 7)
//	binom.cdf([1, 155], 160, [.01, .99]); norm.ppf(.975)
func TestSpecialFunctions(t *testing.T) {
	near(t, "t 1", StudentQuantile(0.975, 1), 12.706204736174694, 1e-10)
	near(t, "t 2", StudentQuantile(0.975, 2), 4.302652729749462, 1e-11)
	near(t, "t 3.5", StudentQuantile(0.975, 3.5), 2.9400886379827282, 1e-11)
	near(t, "t 79", StudentQuantile(0.975, 79), 1.9904502102301285, 1e-11)
	near(t, "t 1000", StudentQuantile(0.975, 1000), 1.9623390808264083, 1e-10)
	near(t, "t 79 at 0.8", StudentQuantile(0.8, 79), 0.8461948105115596, 1e-11)
	near(t, "beta", betaQuantile(0.025, 80, 1), 0.9549359649323077, 1e-12)
	near(t, "beta", betaQuantile(0.975, 3.5, 157.25), 0.04926135133564812, 1e-12)
	near(t, "beta cdf", betaCDF(0.3, 2.5, 7), 0.6412224629717214, 1e-12)
	near(t, "binomial", binomialCDF(1, 160, 0.01), 0.5239570702635334, 1e-12)
	near(t, "binomial", binomialCDF(155, 160, 0.99), 0.023019750668151328, 1e-12)
	near(t, "normal", normalCDF(1.959963984540054), 0.975, 1e-12)
}
