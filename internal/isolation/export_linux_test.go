package isolation

// NoNamespaces makes NewPlan use none, as where the system allows none.
func NoNamespaces(no bool) { withoutNamespaces = no }
